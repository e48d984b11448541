// Sets the colors of the plots when they are there, and when the page changes between light and dark.
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function paint() {
    const ink = dark.matches ? "#c9d0da" : "#4b5563";
    for (const doc of Bokeh.documents) for (const plot of doc.roots()) {
      const parts = [plot.above, plot.below, plot.left, plot.right, plot.center].flat();
      for (const part of [...parts, plot.title]) {
        if (!part || !part.attributes) continue;
        for (const name of ["text_color", "label_text_color", "major_label_text_color",
                            "axis_label_text_color", "axis_line_color", "major_tick_line_color"])
          if (name in part.attributes) part[name] = ink;
      }
    }
  }
  (function begin() {
    if (!window.Bokeh || !Bokeh.documents.length) { setTimeout(begin, 50); return; }
    dark.addEventListener("change", paint);
    paint();
  })();
})();
