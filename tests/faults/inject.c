/* A library below memfs, its Python and its SQLite (LD_PRELOAD): system calls that fail where a test says so, and a clock
 * that is wrong. The rules lie in a file that the test maps too, so that they change in a running process; see
 * injecting.py, which has the same layout. Without a file, or with no rule in it, every call goes through. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define RULES 8
#define NAME_BYTES 104
#define NS_PER_SECOND 1000000000LL

enum {
    CALL_OPEN = 1 << 0,
    CALL_WRITE = 1 << 1,
    CALL_READ = 1 << 2,
    CALL_SYNC = 1 << 3,
    CALL_TRUNCATE = 1 << 4,
    CALL_MAP = 1 << 5,
    CALL_UNLINK = 1 << 6,
    CALL_THREAD = 1 << 7,
    CALL_FORK = 1 << 8,
};

struct rule {
    uint32_t calls;    /* which calls; 0: the rule is off */
    int32_t number;    /* the errno; 0: a write writes half of what it was given, and says so */
    int32_t after;     /* so many that match go through first */
    int32_t times;     /* so many then fail; -1: all */
    int32_t seen;      /* that matched so far */
    int32_t injected;  /* that failed so far */
    char name[NAME_BYTES]; /* how the file's path ends; empty: any, and what has no file */
};

struct control {
    int64_t clock_offset_ns; /* added to what the clock says */
    struct rule rules[RULES];
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MEMFS_TEST_INJECT");
    if (!path)
        return;
    int descriptor = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return;
    void *mapped = (void *)syscall(SYS_mmap, NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    syscall(SYS_close, descriptor);
    if (mapped != MAP_FAILED)
        control = mapped;
}

static int ends_with(const char *path, const char *name) {
    size_t length = strlen(path), end = strlen(name);
    static const char deleted[] = " (deleted)";
    size_t gone = sizeof deleted - 1;
    if (length > gone && !strcmp(path + length - gone, deleted))
        length -= gone;
    return length >= end && !memcmp(path + length - end, name, end);
}

/* The rule that this call fails by; NULL: it goes through. The file is given by its path or its descriptor. */
static struct rule *failing(uint32_t call, const char *path, int descriptor) {
    if (!control)
        return NULL;
    int before = errno;
    char linked[4096] = "";
    for (struct rule *rule = control->rules; rule < control->rules + RULES; rule++) {
        if (!(__atomic_load_n(&rule->calls, __ATOMIC_ACQUIRE) & call))
            continue;
        if (rule->name[0]) {
            if (!path) {
                char link[64];
                snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
                ssize_t length = readlink(link, linked, sizeof linked - 1);
                linked[length < 0 ? 0 : length] = '\0';
                path = linked;
            }
            if (!ends_with(path, rule->name))
                continue;
        }
        int32_t number = __atomic_fetch_add(&rule->seen, 1, __ATOMIC_RELAXED);
        if (number < rule->after || (rule->times >= 0 && number >= rule->after + rule->times))
            continue;
        __atomic_fetch_add(&rule->injected, 1, __ATOMIC_RELAXED);
        return rule;
    }
    errno = before;
    return NULL;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FAIL(call, path, descriptor, value) \
    do { \
        struct rule *rule = failing(call, path, descriptor); \
        if (rule) { \
            errno = rule->number; \
            return value; \
        } \
    } while (0)

#define OPENER(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        FAIL(CALL_OPEN, path, -1, -1); \
        return real(path, flags, mode); \
    }
OPENER(open)
OPENER(open64)

#define OPENER_AT(name) \
    int name(int directory, const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        FAIL(CALL_OPEN, path, -1, -1); \
        return real(directory, path, flags, mode); \
    }
OPENER_AT(openat)
OPENER_AT(openat64)

#define WRITER() \
    do { \
        struct rule *rule = failing(CALL_WRITE, NULL, descriptor); \
        if (rule && rule->number) { \
            errno = rule->number; \
            return -1; \
        } \
        if (rule) \
            count = count > 1 ? count / 2 : count; \
    } while (0)

ssize_t write(int descriptor, const void *bytes, size_t count) {
    REAL(write);
    WRITER();
    return real(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    REAL(pwrite);
    WRITER();
    return real(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    REAL(pwrite64);
    WRITER();
    return real(descriptor, bytes, count, offset);
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    REAL(read);
    FAIL(CALL_READ, NULL, descriptor, -1);
    return real(descriptor, bytes, count);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
    REAL(pread);
    FAIL(CALL_READ, NULL, descriptor, -1);
    return real(descriptor, bytes, count, offset);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset) {
    REAL(pread64);
    FAIL(CALL_READ, NULL, descriptor, -1);
    return real(descriptor, bytes, count, offset);
}

int fsync(int descriptor) {
    REAL(fsync);
    FAIL(CALL_SYNC, NULL, descriptor, -1);
    return real(descriptor);
}

int fdatasync(int descriptor) {
    REAL(fdatasync);
    FAIL(CALL_SYNC, NULL, descriptor, -1);
    return real(descriptor);
}

int ftruncate(int descriptor, off_t length) {
    REAL(ftruncate);
    FAIL(CALL_TRUNCATE, NULL, descriptor, -1);
    return real(descriptor, length);
}

int ftruncate64(int descriptor, off64_t length) {
    REAL(ftruncate64);
    FAIL(CALL_TRUNCATE, NULL, descriptor, -1);
    return real(descriptor, length);
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
    REAL(mmap);
    if (descriptor >= 0)
        FAIL(CALL_MAP, NULL, descriptor, MAP_FAILED);
    return real(address, length, protection, flags, descriptor, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset) {
    REAL(mmap64);
    if (descriptor >= 0)
        FAIL(CALL_MAP, NULL, descriptor, MAP_FAILED);
    return real(address, length, protection, flags, descriptor, offset);
}

int unlink(const char *path) {
    REAL(unlink);
    FAIL(CALL_UNLINK, path, -1, -1);
    return real(path);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    REAL(pthread_create);
    struct rule *rule = failing(CALL_THREAD, "", -1);
    return rule ? rule->number : real(thread, attributes, run, argument);
}

pid_t fork(void) {
    REAL(fork);
    FAIL(CALL_FORK, "", -1, -1);
    return real();
}

/* The clock. What waits goes by the one that only goes forward, which stays right. */

static int64_t offset_ns(void) { return control ? __atomic_load_n(&control->clock_offset_ns, __ATOMIC_RELAXED) : 0; }

int clock_gettime(clockid_t clock, struct timespec *found) {
    int failed = syscall(SYS_clock_gettime, clock, found);
    int64_t offset = clock == CLOCK_REALTIME ? offset_ns() : 0;
    if (!failed && offset) {
        int64_t moment = found->tv_sec * NS_PER_SECOND + found->tv_nsec + offset;
        found->tv_sec = moment / NS_PER_SECOND;
        found->tv_nsec = moment % NS_PER_SECOND;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    (void)zone;
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    found->tv_sec = moment.tv_sec;
    found->tv_usec = moment.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    if (found)
        *found = moment.tv_sec;
    return moment.tv_sec;
}
