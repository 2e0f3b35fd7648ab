"""A page of cards in WebKitGTK, swiped up and down without a graphics processor: `swipe.pgr`.

Each swipe scrolls 40 frames, slower and slower, as a finger does. Needs gir1.2-webkit2-4.1 and a
display, such as that of xvfb-run.
"""

import sys

import gi

gi.require_version("Gtk", "3.0")
gi.require_version("WebKit2", "4.1")
from gi.repository import GLib, Gtk, WebKit2  # noqa: E402

CARDS, SWIPES, PAUSE_MS = 200, int(sys.argv[1]) if len(sys.argv) > 1 else 6, 300
CARD = (
    '<div style="margin:14px;padding:16px;border-radius:18px;background:hsl({hue} 60% 92%);'
    'box-shadow:0 6px 24px rgba(0,0,0,.35)"><h2>Card {number}</h2>'
    '<div style="height:160px;filter:blur(2px);background:linear-gradient({hue}deg,#346,#fc9)">'
    "</div><p>{text}</p></div>"
)
SWIPE = """
(direction => {
  let frame = 0;
  const next = () => {
    window.scrollBy(0, direction * (120 * Math.exp(-frame / 18) + 20));
    if (++frame < 40) requestAnimationFrame(next); else document.title = `swiped ${Date.now()}`;
  };
  requestAnimationFrame(next);
})(%d);
"""


class Swiper:
    """Swipes when the page is there, and again when a swipe is over."""

    def __init__(self) -> None:
        self.swipes = 0
        self.view = WebKit2.WebView()
        never = WebKit2.HardwareAccelerationPolicy.NEVER
        self.view.get_settings().set_property("hardware-acceleration-policy", never)
        window = Gtk.Window()
        window.set_default_size(412, 915)
        window.add(self.view)
        window.show_all()
        self.view.connect("load-changed", self.loaded)
        self.view.connect("notify::title", self.swiped)
        text = "The quick brown fox jumps over the lazy dog. " * 6
        cards = (CARD.format(hue=37 * n % 360, number=n, text=text) for n in range(CARDS))
        self.view.load_html(f"<meta charset=utf-8><body>{''.join(cards)}", None)

    def loaded(self, _view: object, event: object) -> None:
        """The first swipe."""
        if event == WebKit2.LoadEvent.FINISHED:
            GLib.timeout_add(PAUSE_MS, self.swipe)

    def swiped(self, *_: object) -> None:
        """The next one, or the end."""
        if (self.view.get_title() or "").startswith("swiped"):
            GLib.timeout_add(PAUSE_MS, Gtk.main_quit if self.swipes == SWIPES else self.swipe)

    def swipe(self) -> bool:
        """Down for three swipes, then up for three."""
        direction = -1 if self.swipes // 3 % 2 else 1
        self.swipes += 1
        self.view.evaluate_javascript(SWIPE % direction, -1, None, None, None, None, None)
        return False


Swiper()
Gtk.main()
