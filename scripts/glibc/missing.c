// What a libstdc++.a of GCC 12 and later refers to, and glibc has later than 2.28: for programs that must start there.
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

// Whether there is one thread (glibc 2.32). Where it says no, counters are changed atomically, which is always right.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// Of glibc 2.36.
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
    uint32_t number;
    while (getrandom(&number, sizeof number, 0) != sizeof number) {}
    return number;
}
