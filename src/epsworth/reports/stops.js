// Pages whose sliders stop where Python has been: what is said, and where marks lie, at every stop stands in the page,
// rounded there. This script only looks it up. Everything from a file goes through textContent, never into markup.

"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("numbers").textContent);

  for (const [name, of] of Object.entries(data.sliders)) {
    const slider = $(name);
    const show = () => {
      const at = Number(slider.value) - Number(slider.min);
      for (const [id, texts] of Object.entries(of.says)) if ($(id).textContent !== texts[at]) $(id).textContent = texts[at];
      for (const [id, places] of Object.entries(of.moves)) $(id).setAttribute("transform", `translate(${places[at]})`);
      for (const [id, widths] of Object.entries(of.widths)) $(id).setAttribute("width", widths[at]);
      slider.setAttribute("aria-valuetext", $(`${name}-shown`).textContent);
    };
    slider.addEventListener("input", show);
    show();
  }

  /** Offer a text as a file; nothing leaves this page but into the reader's own folder. */
  function save(name, kind, content) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  /** The tables beside the pictures, one after another; what a spreadsheet would take for a formula gets a space. */
  function csv() {
    const quoted = (text) => `"${(/^[=+\-@\t]/.test(text) && !/^[-+]?[\d.,]+$/.test(text) ? " " : "") + text.replaceAll('"', '""')}"`;
    const tables = [...document.querySelectorAll("table.data")];
    return tables.map((table) => [...table.rows].map((row) =>
      [...row.cells].map((cell) => quoted(cell.textContent)).join(",")).join("\r\n")).join("\r\n\r\n") + "\r\n";
  }

  /** Unpack the result that the page holds. */
  async function whole() {
    const packed = Uint8Array.from(atob($("whole").textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  }

  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", async () => {
      if (button.dataset.save === "whole") save("result.json", "application/json", await whole());
      else if (button.dataset.save === "policy") save("policy.toml", "application/toml", data.policy);
      else save("numbers.csv", "text/csv", csv());
    });
  }
  document.documentElement.classList.add("moves");
})();
