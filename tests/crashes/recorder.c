/* Records what processes do to the files below one directory, in the order in which it happened, for crash images.
 *
 * Loaded with LD_PRELOAD. MEMFS_RECORD_BELOW is the directory, a real path, and MEMFS_RECORD_LOG the file that all
 * processes append to. Each call is made and recorded under a lock on that file, so that the order of the log is that
 * of the calls, whatever process or thread made them. tests/crashes/recording.py reads it, and has the same numbers.
 *
 * Files that end in -shm are left out: they are written through a mapping, which nobody can see here, and they are gone
 * after a crash anyway. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, LINK, UNLINK, MKDIR, RMDIR, UNSEEN };

struct record {
    uint32_t magic, kind;
    uint64_t inode;
    int64_t first, second; /* an offset or a size; the flags of a descriptor */
    uint32_t pid, path_length, data_length, unused;
};

static char below[PATH_MAX], log_path[PATH_MAX];
static size_t below_length;

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("MEMFS_RECORD_BELOW"), *log = getenv("MEMFS_RECORD_LOG");
    if (directory && log) {
        strncpy(below, directory, sizeof below - 1);
        strncpy(log_path, log, sizeof log_path - 1);
        below_length = strlen(below);
    }
}

/* Whether a path is one that is recorded. */
static int concerns(const char *path) {
    size_t length = strlen(path);
    if (!below_length || strncmp(path, below, below_length) || (path[below_length] && path[below_length] != '/'))
        return 0;
    return length < 4 || strcmp(path + length - 4, "-shm");
}

/* The real path of a descriptor, as the kernel tells it: with " (deleted)" at the end of one that has no name. */
static ssize_t told(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length >= 0)
        path[length] = 0;
    return length;
}

/* The same, and whether it is recorded. */
static int path_of(int fd, char *path) { return below_length && fd >= 0 && told(fd, path) >= 0 && concerns(path); }

/* A name's real path: its directory's, and the name. */
static int named(int directory, const char *name, char *path) {
    char whole[2 * PATH_MAX] = "", real[PATH_MAX];
    if (!below_length)
        return 0;
    if (name[0] != '/') {
        if (directory == AT_FDCWD) {
            if (!getcwd(whole, PATH_MAX))
                return 0;
        } else if (told(directory, whole) < 0) {
            return 0;
        }
        strcat(whole, "/");
    }
    strncat(whole, name, PATH_MAX - 1);
    char *last = strrchr(whole, '/');
    *last = 0;
    if (!realpath(last == whole ? "/" : whole, real) || strlen(real) + strlen(last + 1) + 2 > PATH_MAX)
        return 0;
    strcpy(path, real);
    strcat(path, "/");
    strcat(path, last + 1);
    return concerns(path);
}

static int lock(void) {
    int log = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    while (syscall(SYS_flock, log, LOCK_EX) < 0 && errno == EINTR)
        ;
    return log;
}

static void unlock(int log) {
    int saved = errno;
    syscall(SYS_close, log);
    errno = saved;
}

static void note(int log, enum kind kind, uint64_t inode, int64_t first, int64_t second, const char *path,
                 const void *data, size_t length) {
    int saved = errno;
    struct record record = {0x5245434f, kind,          inode, first, second, (uint32_t)getpid(), (uint32_t)strlen(path),
                            (uint32_t)length, 0};
    struct iovec parts[] = {{&record, sizeof record}, {(void *)path, strlen(path)}, {(void *)data, length}};
    if (syscall(SYS_writev, log, parts, 3) != (ssize_t)(sizeof record + strlen(path) + length))
        abort(); /* what is recorded is then worth nothing */
    errno = saved;
}

static uint64_t inode_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : status.st_ino;
}

static uint64_t inode_at(const char *path) {
    struct stat status;
    return lstat(path, &status) ? 0 : status.st_ino;
}

/* Opening */

static int opened(int directory, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (!below_length || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE)
        return (int)syscall(SYS_openat, directory, name, flags, mode);
    /* Where the name is a link, its own path says nothing of where the file is. */
    int log = lock();
    int missing = faccessat(directory, name, F_OK, 0) != 0;
    int fd = (int)syscall(SYS_openat, directory, name, flags, mode);
    if (fd >= 0 && path_of(fd, path)) {
        if (missing)
            note(log, CREATE, inode_of(fd), 0, 0, path, "", 0);
        else if (flags & O_TRUNC)
            note(log, TRUNCATE, inode_of(fd), 0, 0, path, "", 0);
    }
    unlock(log);
    return fd;
}

#define WITH_MODE(flags)                                                                                               \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                           \
        va_list arguments;                                                                                             \
        va_start(arguments, flags);                                                                                    \
        mode = va_arg(arguments, mode_t);                                                                              \
        va_end(arguments);                                                                                             \
    }

int open(const char *name, int flags, ...) {
    WITH_MODE(flags)
    return opened(AT_FDCWD, name, flags, mode);
}
int open64(const char *name, int flags, ...) {
    WITH_MODE(flags)
    return opened(AT_FDCWD, name, flags | O_LARGEFILE, mode);
}
int openat(int directory, const char *name, int flags, ...) {
    WITH_MODE(flags)
    return opened(directory, name, flags, mode);
}
int openat64(int directory, const char *name, int flags, ...) {
    WITH_MODE(flags)
    return opened(directory, name, flags | O_LARGEFILE, mode);
}
int creat(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* Contents */

static ssize_t written_at(int fd, const void *data, size_t length, off_t offset) {
    char path[PATH_MAX];
    if (!path_of(fd, path))
        return syscall(SYS_pwrite64, fd, data, length, offset);
    int log = lock();
    ssize_t done = syscall(SYS_pwrite64, fd, data, length, offset);
    if (done > 0)
        note(log, WRITE, inode_of(fd), offset, 0, path, data, (size_t)done);
    unlock(log);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return written_at(fd, data, length, offset); }
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return written_at(fd, data, length, offset); }

ssize_t write(int fd, const void *data, size_t length) {
    char path[PATH_MAX];
    if (!path_of(fd, path))
        return syscall(SYS_write, fd, data, length);
    int log = lock();
    ssize_t done = syscall(SYS_write, fd, data, length);
    if (done > 0)
        note(log, WRITE, inode_of(fd), lseek(fd, 0, SEEK_CUR) - done, 0, path, data, (size_t)done);
    unlock(log);
    return done;
}

static int cut(int fd, off_t size) {
    char path[PATH_MAX];
    if (!path_of(fd, path))
        return (int)syscall(SYS_ftruncate, fd, size);
    int log = lock();
    int failed = (int)syscall(SYS_ftruncate, fd, size);
    if (!failed)
        note(log, TRUNCATE, inode_of(fd), size, 0, path, "", 0);
    unlock(log);
    return failed;
}
int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off_t size) { return cut(fd, size); }

static int synced(int fd, long number) {
    char path[PATH_MAX];
    if (!path_of(fd, path))
        return (int)syscall(number, fd);
    int log = lock();
    int failed = (int)syscall(number, fd);
    if (!failed)
        note(log, SYNC, inode_of(fd), number == SYS_fdatasync, fcntl(fd, F_GETFL), path, "", 0);
    unlock(log);
    return failed;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* Names */

static int two_names(long number, enum kind kind, int from, const char *old, int to, const char *new, int flags) {
    char old_path[PATH_MAX], new_path[PATH_MAX];
    int concerned = named(from, old, old_path);
    if (!named(to, new, new_path) && !concerned)
        return (int)syscall(number, from, old, to, new, flags);
    int log = lock();
    uint64_t inode = inode_at(old_path);
    int failed = (int)syscall(number, from, old, to, new, flags);
    if (!failed)
        note(log, kind, inode, 0, flags, old_path, new_path, strlen(new_path));
    unlock(log);
    return failed;
}
int rename(const char *old, const char *new) {
    return two_names(SYS_renameat2, RENAME, AT_FDCWD, old, AT_FDCWD, new, 0);
}
int renameat(int from, const char *old, int to, const char *new) {
    return two_names(SYS_renameat2, RENAME, from, old, to, new, 0);
}
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return two_names(SYS_renameat2, RENAME, from, old, to, new, (int)flags);
}
int link(const char *old, const char *new) { return two_names(SYS_linkat, LINK, AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return two_names(SYS_linkat, LINK, from, old, to, new, flags);
}

static int one_name(long number, enum kind kind, int directory, const char *name, int argument) {
    char path[PATH_MAX];
    if (!named(directory, name, path))
        return (int)syscall(number, directory, name, argument);
    int log = lock();
    int failed = (int)syscall(number, directory, name, argument);
    if (!failed)
        note(log, kind, kind == MKDIR ? inode_at(path) : 0, 0, 0, path, "", 0);
    unlock(log);
    return failed;
}
int unlink(const char *name) { return one_name(SYS_unlinkat, UNLINK, AT_FDCWD, name, 0); }
int unlinkat(int directory, const char *name, int flags) {
    return one_name(SYS_unlinkat, flags & AT_REMOVEDIR ? RMDIR : UNLINK, directory, name, flags);
}
int rmdir(const char *name) { return one_name(SYS_unlinkat, RMDIR, AT_FDCWD, name, AT_REMOVEDIR); }
int mkdir(const char *name, mode_t mode) { return one_name(SYS_mkdirat, MKDIR, AT_FDCWD, name, (int)mode); }
int mkdirat(int directory, const char *name, mode_t mode) {
    return one_name(SYS_mkdirat, MKDIR, directory, name, (int)mode);
}

/* What would change a file unseen: nobody is known to call these on one, and the log says it if somebody does. */

static void unseen(int fd) {
    char path[PATH_MAX];
    if (path_of(fd, path)) {
        int log = lock();
        note(log, UNSEEN, inode_of(fd), 0, 0, path, "", 0);
        unlock(log);
    }
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    unseen(fd);
    return syscall(SYS_writev, fd, parts, count);
}
int fallocate(int fd, int mode, off_t offset, off_t length) {
    unseen(fd);
    return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}
int posix_fallocate(int fd, off_t offset, off_t length) {
    unseen(fd);
    return syscall(SYS_fallocate, fd, 0, offset, length) ? errno : 0;
}
