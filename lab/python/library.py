"""A music library in an SQLite database kept in memory. A visit plays, rates and searches."""

import sqlite3

from lines import serve

TRACKS = 1_000_000
database = sqlite3.connect(":memory:")
database.execute("create table track (id integer primary key, artist, album, title, plays, rating)")
database.executemany(
    "insert into track values (?, ?, ?, ?, ?, 0)",
    (
        (i, f"Artist {i % 4000}", f"Album {i // 12}", f"Song {i} of album {i // 12}", i % 17)
        for i in range(TRACKS)
    ),
)
database.execute("create index by_artist on track (artist)")
database.execute("create index by_plays on track (plays, rating)")


def visit(round_number: int) -> int:
    """Plays tracks, most of them the same at every visit, and looks up artists."""
    for i in range(1500):
        track = i * 13 if i % 4 else (round_number * 9973 + i * 191) % TRACKS
        database.execute(
            "update track set plays = plays + 1, rating = ? where id = ?", (i % 6, track)
        )
    rows = 0
    for i in range(30):
        artist = f"Artist {(round_number * 7 + i * 3) % 4000}"
        rows += len(database.execute("select * from track where artist = ?", (artist,)).fetchall())
    return rows


serve(visit)
