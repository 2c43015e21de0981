// Makes uses of the files in one folder fail with EIO, in a program that loads this library first (LD_PRELOAD).
//
//     FAILING_FOLDER   the folder, an absolute path
//     FAILING_USE      which use fails, from 1; 0 is every rename
//     FAILING_REPORT   a file that is created when a use fails; it holds the name of what failed

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { FILES = 1024 };
static atomic_bool in_folder[FILES];
static atomic_long uses;

#define NEXT(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

// By system calls, which are not counted.
static void report(const char *what) {
    int fd = syscall(SYS_openat, AT_FDCWD, getenv("FAILING_REPORT"), O_WRONLY | O_CREAT, 0666);
    syscall(SYS_write, fd, what, strlen(what));
    syscall(SYS_close, fd);
}

// Counts a use. Whether it is the one that fails.
static int fails(const char *what) {
    const char *number = getenv("FAILING_USE");
    if (!number || atomic_fetch_add(&uses, 1) + 1 != atol(number)) return 0;
    report(what);
    errno = EIO;
    return 1;
}

static int is_in_folder(const char *path) {
    const char *folder = getenv("FAILING_FOLDER");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int fd_fails(int fd, const char *what) {
    return fd >= 0 && fd < FILES && in_folder[fd] && fails(what);
}

static int opened(int fd, const char *path) {
    if (fd >= 0 && fd < FILES) in_folder[fd] = is_in_folder(path);
    return fd;
}

#define OPEN(name)                                           \
    int name(const char *path, int flags, ...) {             \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = va_arg(rest, mode_t);                  \
        va_end(rest);                                        \
        if (is_in_folder(path) && fails("open")) return -1;  \
        return opened(NEXT(name)(path, flags, mode), path);  \
    }
OPEN(open)
OPEN(open64)

#define USE(type, name, parameters, arguments)               \
    type name parameters {                                   \
        return fd_fails(fd, #name) ? -1 : NEXT(name) arguments; \
    }
USE(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
USE(ssize_t, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
USE(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
USE(ssize_t, pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
USE(off64_t, lseek64, (int fd, off64_t to, int from), (fd, to, from))
USE(int, fchmod, (int fd, mode_t mode), (fd, mode))
USE(int, fsync, (int fd), (fd))

// Rust asks with no path whether the system has this call.
int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
    const char *volatile name = path;
    int ours = name && *name ? is_in_folder(name) : fd >= 0 && fd < FILES && in_folder[fd];
    return ours && fails("statx") ? -1 : NEXT(statx)(fd, path, flags, mask, out);
}

void *mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t from) {
    return fd_fails(fd, "mmap") ? MAP_FAILED : NEXT(mmap64)(at, n, protection, flags, fd, from);
}

int close(int fd) {
    if (fd >= 0 && fd < FILES) in_folder[fd] = 0;
    return NEXT(close)(fd);
}

// Rust programs rename by a system call of their own, past the C library.
__attribute__((constructor)) static void refuse_renames(void) {
    const char *number = getenv("FAILING_USE");
    if (!number || strcmp(number, "0") != 0) return;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef __NR_rename
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_rename, 2, 0),
#else
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_renameat, 2, 0),
#endif
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_renameat, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_renameat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) report("rename");
}
