// Choosers and legend are plain HTML; they reach the plot by its names.
(function () {
  function model(name) {
    for (const doc of Bokeh.documents) {
      const found = doc.get_model_by_name(name);
      if (found) return found;
    }
  }
  function sizes(values) {
    const low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
    return Array.from(values, (v) => 3 + 11 * (v - low) / span);
  }
  // What the choosers and the legend say, as it is now.
  function redraw() {
    const rows = model("embedding-rows"), plot = model("embedding"), data = {...rows.data};
    const buttons = [...document.querySelectorAll("button[data-kind]")];
    const hidden = buttons.filter((b) => b.getAttribute("aria-pressed") === "false")
      .map((b) => Number(b.dataset.kind));
    const seen = (value, i) => hidden.includes(data.kind[i]) ? NaN : value;
    for (const select of document.querySelectorAll("select[data-axis]")) {
      const axis = select.dataset.axis;
      if (axis === "size") {
        data.size = select.value ? sizes(data[select.value]) : Array.from(data.size, () => 6);
      } else {
        data[axis] = Array.from(data[select.value]);
        (axis === "x" ? plot.below : plot.left)[0].axis_label = select.value;
      }
    }
    data.x = Array.from(document.querySelector("select[data-axis=x]") ? data.x : data.pc1, seen);
    rows.data = data;
  }
  for (const select of document.querySelectorAll("select[data-axis]"))
    select.addEventListener("change", redraw);
  for (const button of document.querySelectorAll("button[data-kind]")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "false");
      redraw();
    });
  }
})();
