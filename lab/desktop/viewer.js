// A viewer of documents, run by `mutool run`. A visit draws pages of some of the open ones.
var WIDTH = 612, HEIGHT = 792, OPEN = 24;
var drawn = [];

function draw(number, round) {
	var pixmap = new Pixmap(DeviceRGB, [0, 0, WIDTH * 2, HEIGHT * 2], false);
	pixmap.clear(255);
	var device = new DrawDevice(Identity, pixmap);
	for (var i = 0; i < 60; i++) {
		var path = new Path();
		path.moveTo((i * 37) % 1200, (i * 53 + number) % 1500);
		path.lineTo((i * 91 + round) % 1200, (i * 29) % 1500);
		path.lineTo((i * 17) % 1200, (i * 71) % 1500);
		path.closePath();
		device.fillPath(path, false, Identity, DeviceRGB, [(i % 10) / 10, (number % 10) / 10, 0.5], 1);
	}
	device.close();
	return pixmap;
}

for (var number = 0; number < OPEN; number++)
	drawn[number] = draw(number, 0);
print("ready");
for (var line = readline(); line; line = readline()) {
	var round = parseInt(line.split(" ")[1]);
	for (var k = 0; k < 6; k++) {
		var front = k < 4 ? k : (round * 3 + k) % OPEN;
		drawn[front] = draw(front, round);
	}
	print("done " + drawn.length);
}
