# Strings that grow, hashes and forks; prints a checksum.
use strict;
use warnings;
my $sum = 0;
for my $number (1 .. 40) {
    my $text = '';
    $text .= "$number-$_ " for 1 .. 30000;
    my %seen;
    $seen{ $_ % 5003 } .= 'x' for 1 .. 20000;
    $sum = ($sum * 31 + length($text) + keys(%seen)) % 1000000007;
}
for my $number (1 .. 20) {
    my $process = fork() // die "fork: $!";
    if ($process == 0) {
        my $block = "\0" x (300000 + $number);
        exit(length($block) % 7);
    }
    waitpid($process, 0);
    $sum += $? >> 8;
}
print "finished $sum\n";
