// With each update of the state: the title, the announcement, the sign of life.
window.beat = Date.now();
const text = beat.data.text[0], name = beat.data.name[0];
document.title = text + " – " + name;
const place = document.getElementById("state");
if (place && place.textContent !== text) place.textContent = text;
