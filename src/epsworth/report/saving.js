// What every page offers as files: its whole result, a policy, its numbers for a spreadsheet.

/** Let each download button save what it names; `numbers` returns rows of cells, which are quoted here. */
function offerFiles(data, numbers) {
  /** Offer a text as a file; nothing leaves this page but into the reader's own folder. */
  function save(name, kind, content) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  /** Unpack the result that the page holds. */
  async function whole() {
    const packed = Uint8Array.from(atob(document.getElementById("whole").textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  }

  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", async () => {
      if (button.dataset.save === "whole") save("result.json", "application/json", await whole());
      else if (button.dataset.save === "policy") save("policy.toml", "application/toml", data.policy);
      else save("numbers.csv", "text/csv", numbers().map((row) => `${row.join(",")}\r\n`).join(""));
    });
  }
}

/** Quote a cell; what a spreadsheet would take for a formula, and is no number, gets a space before it. */
function quoted(text) {
  const risky = /^[=+\-@\t]/.test(text) && !/^[-+]?[\d.,]+$/.test(text);
  return `"${(risky ? " " : "") + text.replaceAll('"', '""')}"`;
}
