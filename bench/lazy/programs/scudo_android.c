// Sets scudo's cache of large blocks as Android does: 32 blocks of up to 2 MiB, given back after 1 s.
// Source: AndroidConfig in LLVM's allocator_config.h; the numbers of mallopt's options are from
// scudo/interface.h of LLVM 16. Preloaded behind scudo.
int mallopt(int option, int value);

enum { DECAY_TIME_MS = -100, CACHE_COUNT_MAX = -200, CACHE_SIZE_MAX = -201 };

__attribute__((constructor)) static void as_android(void)
{
    mallopt(CACHE_COUNT_MAX, 32);
    mallopt(CACHE_SIZE_MAX, 2 << 20);
    mallopt(DECAY_TIME_MS, 1000);
}
