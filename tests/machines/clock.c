/* Move the wall clock, and the times of files with it, for every program that loads this library.
 *
 * The shift in seconds is read from CLOCK_SHIFT_FILE, by default /etc/clock-shift. Programs find
 * the library by /etc/ld.so.preload and not by a variable, because commands in the sandbox have
 * few variables. The monotonic clock stays as it is.
 *
 * Times before 2008 are not moved: a test that sets a file's time to 1970 would otherwise set one
 * that many file systems cannot keep.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

static const time_t EARLIEST = 1200000000;
static long shift_s;

__attribute__((constructor)) static void read_shift(void) {
    const char *path = getenv("CLOCK_SHIFT_FILE");
    int file = open(path ? path : "/etc/clock-shift", O_RDONLY | O_CLOEXEC);
    char text[32] = "";
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0) shift_s = atol(text);
        close(file);
    }
}

/* To what programs see, and back to what the kernel keeps. */
static time_t seen(time_t kept) { return kept >= EARLIEST ? kept + shift_s : kept; }
static time_t kept(time_t seen) { return seen - shift_s >= EARLIEST ? seen - shift_s : seen; }

static int is_wall(clockid_t id) {
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next(id, now);
    if (!failed && is_wall(id)) now->tv_sec += shift_s;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, now) ? base : 0;
}

static int show(int failed, struct stat *found) {
    if (!failed) {
        found->st_atim.tv_sec = seen(found->st_atim.tv_sec);
        found->st_mtim.tv_sec = seen(found->st_mtim.tv_sec);
        found->st_ctim.tv_sec = seen(found->st_ctim.tv_sec);
    }
    return failed;
}

#define NEXT(type, name, ...)                                   \
    static type (*next)(__VA_ARGS__);                           \
    if (!next) next = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define STATS(suffix)                                                                     \
    int stat##suffix(const char *restrict path, struct stat##suffix *restrict found) {    \
        NEXT(int, "stat" #suffix, const char *, struct stat##suffix *);                   \
        return show(next(path, found), (struct stat *)found);                             \
    }                                                                                     \
    int lstat##suffix(const char *restrict path, struct stat##suffix *restrict found) {   \
        NEXT(int, "lstat" #suffix, const char *, struct stat##suffix *);                  \
        return show(next(path, found), (struct stat *)found);                             \
    }                                                                                     \
    int fstat##suffix(int file, struct stat##suffix *found) {                             \
        NEXT(int, "fstat" #suffix, int, struct stat##suffix *);                           \
        return show(next(file, found), (struct stat *)found);                             \
    }                                                                                     \
    int fstatat##suffix(int folder, const char *restrict path,                            \
                        struct stat##suffix *restrict found, int flags) {                 \
        NEXT(int, "fstatat" #suffix, int, const char *, struct stat##suffix *, int);      \
        return show(next(folder, path, found, flags), (struct stat *)found);              \
    }

STATS()
STATS(64) /* The same structure where pointers have 64 bits. */

int statx(int folder, const char *restrict path, int flags, unsigned mask,
          struct statx *restrict found) {
    NEXT(int, "statx", int, const char *, int, unsigned, struct statx *);
    int failed = next(folder, path, flags, mask, found);
    if (!failed) {
        found->stx_atime.tv_sec = seen(found->stx_atime.tv_sec);
        found->stx_btime.tv_sec = seen(found->stx_btime.tv_sec);
        found->stx_ctime.tv_sec = seen(found->stx_ctime.tv_sec);
        found->stx_mtime.tv_sec = seen(found->stx_mtime.tv_sec);
    }
    return failed;
}

static const struct timespec *to_keep(const struct timespec times[2], struct timespec moved[2]) {
    if (!times) return NULL;
    for (int each = 0; each < 2; each++) {
        moved[each] = times[each];
        if (times[each].tv_nsec != UTIME_NOW && times[each].tv_nsec != UTIME_OMIT)
            moved[each].tv_sec = kept(times[each].tv_sec);
    }
    return moved;
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
    NEXT(int, "utimensat", int, const char *, const struct timespec *, int);
    struct timespec moved[2];
    return next(folder, path, to_keep(times, moved), flags);
}

int futimens(int file, const struct timespec times[2]) {
    NEXT(int, "futimens", int, const struct timespec *);
    struct timespec moved[2];
    return next(file, to_keep(times, moved));
}

int utimes(const char *path, const struct timeval times[2]) {
    struct timespec exact[2];
    for (int each = 0; times && each < 2; each++)
        exact[each] = (struct timespec){times[each].tv_sec, times[each].tv_usec * 1000};
    return utimensat(AT_FDCWD, path, times ? exact : NULL, 0);
}

int utime(const char *path, const struct utimbuf *times) {
    struct timespec exact[2];
    if (times) {
        exact[0] = (struct timespec){times->actime, 0};
        exact[1] = (struct timespec){times->modtime, 0};
    }
    return utimensat(AT_FDCWD, path, times ? exact : NULL, 0);
}
