/* A disk that fails on demand: preloaded, it stands before the calls that LMDB writes with. The file
   that ENCKE_TEST_FAULT names says which fault is on: sync, write or head. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_on(const char *fault) {
    const char *path = getenv("ENCKE_TEST_FAULT");
    char text[8] = {0};
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 && strcmp(text, fault) == 0;
}

static int fails(int error) {
    errno = error;
    return -1;
}

/* The descriptor that writes the heads syncs by itself. */
static int is_head(int file) { return (fcntl(file, F_GETFL) & O_DSYNC) != 0; }

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return is_on("sync") ? fails(EIO) : real(file);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) {
    ssize_t (*real)(int, const void *, size_t, off_t) =
        (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    if (is_on("head") && is_head(file)) return fails(EIO);
    if (is_on("write") && !is_head(file)) {
        /* Half of it had room. */
        real(file, bytes, length / 2, at);
        return fails(ENOSPC);
    }
    return real(file, bytes, length, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off_t at) {
    return pwrite(file, bytes, length, at);
}

/* Several pages at once, where the file stands. */
ssize_t writev(int file, const struct iovec *pieces, int count) {
    ssize_t (*real)(int, const struct iovec *, int) =
        (ssize_t (*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    if (is_on("write")) {
        real(file, pieces, (count + 1) / 2);
        return fails(ENOSPC);
    }
    return real(file, pieces, count);
}
