% Octave with recordings in memory. A visit filters some and computes spectra.
1;
recordings = cell(1, 40);
for k = 1:40
  recordings{k} = cumsum(randn(1, 2^18));
end
printf("ready\n"); fflush(stdout);
while true
  % fgetl would wait for a whole block of input.
  round_number = sscanf(input("", "s"), "visit %d");
  total = 0;
  for k = [1:8, mod(round_number * 3 + (0:3), 32) + 9]
    spectrum = abs(fft(recordings{k}));
    recordings{k}(1:1000) = recordings{k}(1:1000) + round_number;
    total += max(spectrum);
  end
  printf("done %g\n", total); fflush(stdout);
end
