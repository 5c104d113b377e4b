// SPDX-License-Identifier: Apache-2.0
// The results of GNU make's ./configure on Linux x86-64 with glibc. Translated
// messages, Guile and loadable objects are off, because no build here needs
// them.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#define FILE_TIMESTAMP_HI_RES 1
#define HAVE_ALLOCA 1
#define HAVE_ALLOCA_H 1
#define HAVE_ATEXIT 1
#define HAVE_CLOCK_GETTIME 1
#define HAVE_DECL_BSD_SIGNAL 0
#define HAVE_DECL_DLERROR 0
#define HAVE_DECL_DLOPEN 0
#define HAVE_DECL_DLSYM 0
#define HAVE_DECL_SYS_SIGLIST 0
#define HAVE_DECL__SYS_SIGLIST 0
#define HAVE_DECL___SYS_SIGLIST 0
#define HAVE_DIRENT_H 1
#define HAVE_DUP 1
#define HAVE_DUP2 1
#define HAVE_FCNTL_H 1
#define HAVE_FDOPEN 1
#define HAVE_FORK 1
#define HAVE_GETCWD 1
#define HAVE_GETGROUPS 1
#define HAVE_GETHOSTNAME 1
#define HAVE_GETRLIMIT 1
#define HAVE_GETTIMEOFDAY 1
#define HAVE_INTTYPES_H 1
#define HAVE_ISATTY 1
#define HAVE_LIMITS_H 1
#define HAVE_LOCALE_H 1
#define HAVE_LSTAT 1
#define HAVE_MEMORY_H 1
#define HAVE_MEMRCHR 1
#define HAVE_MKSTEMP 1
#define HAVE_MKTEMP 1
#define HAVE_PIPE 1
#define HAVE_POSIX_SPAWN 1
#define HAVE_POSIX_SPAWNATTR_SETSIGMASK 1
#define HAVE_PSELECT 1
#define HAVE_READLINK 1
#define HAVE_REALPATH 1
#define HAVE_SA_RESTART 1
#define HAVE_SETEGID 1
#define HAVE_SETEUID 1
#define HAVE_SETLINEBUF 1
#define HAVE_SETREGID 1
#define HAVE_SETREUID 1
#define HAVE_SETRLIMIT 1
#define HAVE_SETVBUF 1
#define HAVE_SIGACTION 1
#define HAVE_SIGSETMASK 1
#define HAVE_SPAWN_H 1
#define HAVE_STDINT_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STPCPY 1
#define HAVE_STRCASECMP 1
#define HAVE_STRCOLL 1
#define HAVE_STRDUP 1
#define HAVE_STRINGS_H 1
#define HAVE_STRING_H 1
#define HAVE_STRNCASECMP 1
#define HAVE_STRNDUP 1
#define HAVE_STRSIGNAL 1
#define HAVE_STRUCT_DIRENT_D_TYPE 1
#define HAVE_SYMLINK 1
#define HAVE_SYS_PARAM_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_SYS_SELECT_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_WAIT_H 1
#define HAVE_TTYNAME 1
#define HAVE_UMASK 1
#define HAVE_UNISTD_H 1
#define HAVE_VFORK 1
#define HAVE_WAIT3 1
#define HAVE_WAITPID 1
#define HAVE_WORKING_FORK 1
#define HAVE_WORKING_VFORK 1
#define MAKE_HOST "x86_64-pc-linux-gnu"
#define MAKE_JOBSERVER 1
#define MAKE_SYMLINKS 1
#define PACKAGE "make"
#define PACKAGE_BUGREPORT "bug-make@gnu.org"
#define PACKAGE_NAME "GNU make"
#define PACKAGE_TARNAME "make"
#define PACKAGE_URL "http://www.gnu.org/software/make/"
#define PACKAGE_VERSION "4.3"
#define PATH_SEPARATOR_CHAR ':'
#define RETSIGTYPE void
#define SCCS_GET "get"
#define STDC_HEADERS 1
#define ST_MTIM_NSEC st_mtim.tv_nsec
#define TIME_WITH_SYS_TIME 1
#define USE_POSIX_SPAWN 1
#define VERSION "4.3"

// gnulib's portability macros. With glibc, their definitions are trivial.
#define _GL_ATTRIBUTE_CONST __attribute__((__const__))
#define _GL_ATTRIBUTE_MALLOC __attribute__((__malloc__))
#define _GL_ATTRIBUTE_PURE __attribute__((__pure__))
#define _GL_EXTERN_INLINE static inline
#define _GL_INLINE static inline
#define _GL_INLINE_HEADER_BEGIN
#define _GL_INLINE_HEADER_END
#define _Noreturn __attribute__((__noreturn__))
