/*
 * The inner loops of the benchmark. They are in C because a stat that the kernel answers from its cache takes half a
 * microsecond: Python's own overhead would be most of what is timed, the same for all, and every ratio would look
 * better than it is.
 *
 * work stat   DIRECTORY FILES BYTES MILLISECONDS    fstatat of each file
 * work read   DIRECTORY FILES BYTES MILLISECONDS    open, read to the end, close
 * work list   DIRECTORY FILES BYTES MILLISECONDS    opendir, readdir, fstatat of each entry, closedir
 * work create DIRECTORY FILES BYTES MILLISECONDS    create, write, close; removed again, which is not timed
 *
 * The files of the first three are note-0000.md and so on, all of BYTES bytes. Passes over all files are repeated for
 * MILLISECONDS, at least once; one that is not timed goes before, except with create. Prints two figures in
 * nanoseconds, each for a file, with list for a pass: that of the median pass, which does not tell of those in which the
 * processor was taken away for somebody else's sake, and that of all passes together. Names are relative to DIRECTORY, so that the way to it, which differs, is not measured. What
 * does not come out as it should ends the program with status 1: half the work must not pass for speed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_PASSES 1000000

static long files, bytes;
static double times[MOST_PASSES];
static char *text, *buffer;
static unsigned long long random_state;

static void fail(const char *what)
{
    fprintf(stderr, "work: %s: %s\n", what, errno ? strerror(errno) : "not what it should be");
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void check_size(const char *name)
{
    struct stat found;
    if (fstatat(AT_FDCWD, name, &found, AT_SYMLINK_NOFOLLOW) != 0)
        fail(name);
    if (S_ISREG(found.st_mode) && found.st_size != bytes)
        errno = 0, fail(name);
}

static void do_stat(long n)
{
    char name[32];
    snprintf(name, sizeof name, "note-%04ld.md", n);
    check_size(name);
}

static void do_read(long n)
{
    char name[32];
    long total = 0, got;
    snprintf(name, sizeof name, "note-%04ld.md", n);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        fail(name);
    while ((got = read(file, buffer, bytes + 1)) > 0)
        total += got;
    if (got < 0)
        fail(name);
    if (close(file) != 0)
        fail(name);
    if (total != bytes)
        errno = 0, fail(name);
}

static void do_list(void)
{
    DIR *directory = opendir(".");
    struct dirent *entry;
    long count = 0;
    if (!directory)
        fail("opendir");
    while ((errno = 0, entry = readdir(directory))) {
        if (entry->d_name[0] == '.')
            continue;
        check_size(entry->d_name);
        count++;
    }
    if (errno)
        fail("readdir");
    closedir(directory);
    if (count != files)
        errno = 0, fail("the number of entries");
}

/* Another text each time, or it would be known already. */
static void change_text(void)
{
    for (long n = 0; n < bytes && n < 16; n++) {
        random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
        text[n] = "0123456789abcdef"[random_state >> 60];
    }
}

static void do_create(long n)
{
    char name[32];
    snprintf(name, sizeof name, "new-%04ld.md", n);
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0)
        fail(name);
    if (write(file, text, bytes) != bytes)
        fail(name);
    if (close(file) != 0)
        fail(name);
}

static void remove_created(void)
{
    char name[32];
    for (long n = 0; n < files; n++) {
        snprintf(name, sizeof name, "new-%04ld.md", n);
        if (unlink(name) != 0)
            fail(name);
    }
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

int main(int count, char **arguments)
{
    if (count != 6)
        fail("usage: work stat|read|list|create DIRECTORY FILES BYTES MILLISECONDS");
    const char *kind = arguments[1];
    if (chdir(arguments[2]) != 0)
        fail(arguments[2]);
    files = atol(arguments[3]);
    bytes = atol(arguments[4]);
    double limit = atof(arguments[5]) * 1e6;
    text = malloc(bytes + 1);
    buffer = malloc(bytes + 1);
    if (!text || !buffer)
        fail("malloc");
    memset(text, '.', bytes);
    for (long n = 79; n < bytes; n += 80)
        text[n] = '\n';
    random_state = (unsigned long long)now() ^ (unsigned long long)getpid() << 40;

    int creating = strcmp(kind, "create") == 0, listing = strcmp(kind, "list") == 0;
    void (*one)(long) = creating                    ? do_create
                        : strcmp(kind, "stat") == 0 ? do_stat
                        : strcmp(kind, "read") == 0 ? do_read
                                                    : NULL;
    if (!listing && !one)
        fail("no such kind of work");
    long operations = listing ? 1 : files;
    double timed = 0;
    long passes = 0;
    for (long pass = creating ? 0 : -1; pass < 1 || (timed < limit && pass < MOST_PASSES); pass++) {
        double took = 0;
        if (creating) {
            for (long n = 0; n < files; n++) {
                change_text();
                double began = now();
                do_create(n);
                took += now() - began;
            }
            remove_created();
        } else {
            double began = now();
            if (listing)
                do_list();
            else
                for (long n = 0; n < files; n++)
                    one(n);
            took = now() - began;
        }
        if (pass < 0)
            continue;
        times[passes++] = took / operations;
        timed += took;
    }
    qsort(times, passes, sizeof *times, compare);
    printf("%.1f %.1f\n", (times[(passes - 1) / 2] + times[passes / 2]) / 2, timed / passes / operations);
    return 0;
}
