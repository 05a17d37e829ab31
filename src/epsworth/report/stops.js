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

  /** The tables beside the pictures, one after another, with an empty line between them. */
  const tables = () => [...document.querySelectorAll("table.data")].flatMap((table, i) =>
    [...(i ? [[]] : []), ...[...table.rows].map((row) => [...row.cells].map((cell) => quoted(cell.textContent)))]);

  offerFiles(data, tables);
  document.documentElement.classList.add("moves");
})();
