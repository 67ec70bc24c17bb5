/* What libfuse can say and be told, and pyfuse3 has no words for; hints.py says what for.
 *
 * Loaded before pyfuse3, and for all to see, this library's two functions stand in front of libfuse's own of the same
 * names: pyfuse3's calls arrive here and go on from here. Nothing of pyfuse3's or libfuse's is changed.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <fuse_lowlevel.h>

/* Bits of a handle's number, as in hints.py. Numbers count up from 1 and do not come near; inodes have 63 bits. */
#define BY_INODE (UINT64_C(1) << 63)
#define NO_FLUSH (UINT64_C(1) << 62)
#define KEEP_LISTING (UINT64_C(1) << 61)
#define USE_LISTING (UINT64_C(1) << 60)
#define TOLD (NO_FLUSH | KEEP_LISTING | USE_LISTING)

typedef void (*read_operation)(fuse_req_t, fuse_ino_t, size_t, off_t, struct fuse_file_info *);

int memfs_hints_used = 0;

static read_operation inner_read;

/* Where no open was asked for there is no handle, and the inode, which pyfuse3 drops, is all that says what to read. */
static void read_by_inode(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
	if (info->fh == 0)
		info->fh = inode | BY_INODE;
	inner_read(request, inode, size, offset, info);
}

static const struct fuse_lowlevel_ops *with_inodes(const struct fuse_lowlevel_ops *operations, size_t size,
						   struct fuse_lowlevel_ops *ours)
{
	if (size != sizeof *ours || operations->read == NULL)
		return operations;
	memcpy(ours, operations, size);
	inner_read = ours->read;
	ours->read = read_by_inode;
	memfs_hints_used = 1;
	return ours;
}

#ifdef fuse_session_new /* from libfuse 3.17 on a macro, which calls this with the version of its headers */
struct fuse_session *fuse_session_new_versioned(struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations,
						size_t size, struct libfuse_version *version, void *data)
{
	struct fuse_session *(*next)(struct fuse_args *, const struct fuse_lowlevel_ops *, size_t,
				     struct libfuse_version *, void *);
	struct fuse_lowlevel_ops ours;

	*(void **)&next = dlsym(RTLD_NEXT, "fuse_session_new_versioned");
	if (next == NULL)
		return NULL;
	return next(arguments, with_inodes(operations, size, &ours), size, version, data);
}
#else
struct fuse_session *fuse_session_new(struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations,
				      size_t size, void *data)
{
	struct fuse_session *(*next)(struct fuse_args *, const struct fuse_lowlevel_ops *, size_t, void *);
	struct fuse_lowlevel_ops ours;

	*(void **)&next = dlsym(RTLD_NEXT, "fuse_session_new");
	if (next == NULL)
		return NULL;
	return next(arguments, with_inodes(operations, size, &ours), size, data);
}
#endif

int fuse_reply_open(fuse_req_t request, const struct fuse_file_info *info)
{
	static int (*next)(fuse_req_t, const struct fuse_file_info *);
	struct fuse_file_info told = *info;

	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "fuse_reply_open");
	if (info->fh & NO_FLUSH)
		told.noflush = 1;
	if (info->fh & KEEP_LISTING)
		told.cache_readdir = 1;
	if (info->fh & USE_LISTING)
		told.keep_cache = 1;
	told.fh &= ~TOLD;
	return next(request, &told);
}
