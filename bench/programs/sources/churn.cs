// Three threads allocate arrays, strings and unmanaged blocks and check them; prints a checksum.
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Threading;

class Churn
{
    static readonly long[] sums = new long[3];

    static void Work(int seed)
    {
        var draw = new Random(seed);
        var kept = new List<byte[]>();
        long sum = 0;
        for (int number = 0; number < 1500; number++)
        {
            var block = new byte[1 + draw.Next(draw.Next(8) == 0 ? 1 << 20 : 1 << 14)];
            for (int at = 0; at < block.Length; at += 509)
            {
                if (block[at] != 0) throw new InvalidOperationException("fresh memory is not zero");
                block[at] = (byte)number;
            }
            kept.Add(block);
            if (kept.Count > 40)
            {
                int chosen = draw.Next(40);
                foreach (byte value in kept[chosen]) sum = sum * 31 + value;
                kept.RemoveAt(chosen);
            }
            if (number % 10 == 0)
            {
                IntPtr outside = Marshal.AllocHGlobal(300000);
                Marshal.WriteInt32(outside, 299996, number);
                sum += Marshal.ReadInt32(outside, 299996);
                Marshal.FreeHGlobal(outside);
            }
            if (number % 500 == 0) GC.Collect();
        }
        sums[seed] = sum;
    }

    static void Main()
    {
        var threads = new List<Thread>();
        for (int seed = 0; seed < 3; seed++)
        {
            int own = seed;
            threads.Add(new Thread(() => Work(own)));
            threads[seed].Start();
        }
        foreach (var thread in threads) thread.Join();
        long sum = 0;
        foreach (long own in sums) sum = sum * 1009 + own;
        Console.WriteLine("finished {0}", (ulong)sum);
    }
}
