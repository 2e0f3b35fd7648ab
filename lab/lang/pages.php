<?php
// A site's pages kept in memory, as a long-running PHP worker does. A visit renders some of them.
ini_set('memory_limit', '-1');
$pages = [];
for ($i = 0; $i < 90000; $i++) {
    $pages[$i] = ['title' => "Page $i", 'text' => str_repeat(md5((string) $i), 24), 'hits' => 0, 'links' => [$i ^ 1, $i ^ 2, $i ^ 4]];
}
echo "ready\n";
while (($line = fgets(STDIN)) !== false) {
    $round = (int) explode(' ', $line)[1];
    $length = 0;
    for ($i = 0; $i < 18000; $i++) {
        $number = $i < 14000 ? $i : ($round * 7919 + $i * 3) % count($pages);
        $pages[$number]['hits']++;
        $length += strlen(htmlspecialchars($pages[$number]['title'] . $pages[$number]['text']));
    }
    echo "done $length\n";
}
