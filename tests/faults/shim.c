/* Fails, or ends the process at, the n-th system call that changes something below a folder.
 *
 * Preloaded (LD_PRELOAD) it stands between a program and the C library, for Python's calls and for those of compiled
 * libraries. What it does stands in a file that all processes share (FEDSIM_FAULTS names it), so that calls are counted
 * over a command and the workers it starts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, ONCE, FROM_THEN_ON, SHORT, CRASH, CRASH_ALL };

struct plan {
    long count;      /* calls so far */
    long at;         /* the call that is hit, from 0 */
    long kind;       /* of the above */
    long error;      /* errno */
    char root[4096]; /* nothing is counted but what lies below */
};

static struct plan *plan;
static unsigned char ours[65536]; /* by file descriptor: opened below the folder, to write or to be synced */

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FEDSIM_FAULTS");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *there = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        plan = there == MAP_FAILED ? NULL : there;
        close(file);
    }
}

/* Whether this call fails; 2 for a write that is to be short. */
static int hit(void) {
    long number = __atomic_fetch_add(&plan->count, 1, __ATOMIC_SEQ_CST);
    if (plan->kind == FROM_THEN_ON ? number < plan->at : number != plan->at) return 0;
    switch (plan->kind) {
    case CRASH: kill(getpid(), SIGKILL); break;
    case CRASH_ALL: kill(0, SIGKILL); break;
    case SHORT: return 2;
    case ONCE:
    case FROM_THEN_ON: errno = (int)plan->error; return 1;
    }
    return 0;
}

static int below(int folder, const char *path) {
    char whole[2 * PATH_MAX], link[64];
    size_t length;
    if (!plan || plan->kind == NOTHING || !path) return 0;
    if (path[0] == '/') {
        snprintf(whole, sizeof whole, "%s", path);
    } else {
        ssize_t got;
        if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        got = readlink(link, whole, PATH_MAX);
        if (got < 0) return 0;
        snprintf(whole + got, sizeof whole - got, "/%s", path);
    }
    length = strlen(plan->root);
    return !strncmp(whole, plan->root, length) && (whole[length] == '/' || !whole[length]);
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define NOTE(fd) if (fd >= 0 && fd < (int)sizeof ours) ours[fd] = (unsigned char)counted
#define OPENING(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))

#define DEFINE_OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); mode_t mode = 0; int counted, fd; va_list rest; \
        va_start(rest, flags); if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(rest, mode_t); va_end(rest); \
        counted = below(AT_FDCWD, path); \
        if (counted && OPENING(flags) && hit() == 1) return -1; \
        fd = real(path, flags, mode); NOTE(fd); return fd; \
    }
#define DEFINE_OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(name); mode_t mode = 0; int counted, fd; va_list rest; \
        va_start(rest, flags); if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(rest, mode_t); va_end(rest); \
        counted = below(folder, path); \
        if (counted && OPENING(flags) && hit() == 1) return -1; \
        fd = real(folder, path, flags, mode); NOTE(fd); return fd; \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

static int own(int fd) { return plan && plan->kind != NOTHING && fd >= 0 && fd < (int)sizeof ours && ours[fd]; }

#define HALF(size) ((size) > 1 ? (size) / 2 : (size))
ssize_t write(int fd, const void *from, size_t size) {
    REAL(write); int what = own(fd) ? hit() : 0;
    return what == 1 ? -1 : real(fd, from, what ? HALF(size) : size);
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    REAL(pwrite); int what = own(fd) ? hit() : 0;
    return what == 1 ? -1 : real(fd, from, what ? HALF(size) : size, at);
}
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) {
    REAL(pwrite64); int what = own(fd) ? hit() : 0;
    return what == 1 ? -1 : real(fd, from, what ? HALF(size) : size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev); int what = own(fd) ? hit() : 0;
    return what == 1 ? -1 : real(fd, parts, what ? HALF(count) : count);
}

#define DEFINE_FD(name, parameters, arguments) \
    int name parameters { REAL(name); if (own(fd) && hit() == 1) return -1; return real arguments; }
DEFINE_FD(fsync, (int fd), (fd))
DEFINE_FD(fdatasync, (int fd), (fd))
DEFINE_FD(ftruncate, (int fd, off_t size), (fd, size))
DEFINE_FD(ftruncate64, (int fd, off64_t size), (fd, size))
int close(int fd) { REAL(close); if (fd >= 0 && fd < (int)sizeof ours) ours[fd] = 0; return real(fd); }

#define DEFINE_PATH(name, parameters, folder, path, arguments) \
    int name parameters { REAL(name); if (below(folder, path) && hit() == 1) return -1; return real arguments; }
DEFINE_PATH(rename, (const char *path, const char *to), AT_FDCWD, path, (path, to))
DEFINE_PATH(renameat, (int a, const char *path, int b, const char *to), a, path, (a, path, b, to))
DEFINE_PATH(unlink, (const char *path), AT_FDCWD, path, (path))
DEFINE_PATH(unlinkat, (int a, const char *path, int flags), a, path, (a, path, flags))
DEFINE_PATH(mkdir, (const char *path, mode_t mode), AT_FDCWD, path, (path, mode))
DEFINE_PATH(mkdirat, (int a, const char *path, mode_t mode), a, path, (a, path, mode))
DEFINE_PATH(rmdir, (const char *path), AT_FDCWD, path, (path))
