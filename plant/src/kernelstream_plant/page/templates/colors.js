// Canvases know nothing of style sheets.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const ink = dark.matches ? "#c9d0da" : "#3d4553", line = dark.matches ? "#2c333c" : "#e4e7ec";
  for (const axis of axes) {
    axis.major_label_text_color = ink; axis.axis_label_text_color = ink;
    axis.axis_line_color = ink; axis.major_tick_line_color = ink;
  }
  for (const grid of grids) grid.grid_line_color = line;
  for (const title of titles) title.text_color = ink;
  for (const legend of legends) legend.label_text_color = ink;
}
dark.addEventListener("change", paint);
paint();
