// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/par_module.h"

#include <dlfcn.h>
#include <marshal.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/par/launcher/archive.h"
#include "tools/par/launcher/plain_data.h"
#include "tools/par/launcher/static_extensions.h"
#include "tools/par/launcher/tables.h"
#include "tools/par/launcher/unpack.h"
#include "zstd.h"
#include "zstd_xxhash.h"

// ArchiveError, which is raised if the archive is damaged. It is a subclass of
// SystemExit, so the program exits with a one-line error, and an `except
// ImportError` around an optional import does not catch it.
static PyObject* archive_error;

typedef struct {
  PyObject_HEAD struct par_archive archive;
  PyObject* path;
} ArchiveObject;

static PyObject* damaged(ArchiveObject* self, const char* where) {
  return PyErr_Format(archive_error,
                      "%U: %s is damaged; build or copy the file again",
                      self->path, where);
}

static int archive_init(ArchiveObject* self, PyObject* args, PyObject* kw) {
  (void)kw;
  PyObject* encoded;
  const char* file = NULL;
  const char* parts = NULL;
  if (!PyArg_ParseTuple(args, "O&|zz:Archive", PyUnicode_FSConverter, &encoded,
                        &file, &parts)) {
    return -1;
  }
  const char* problem = par_archive_open(
      file ? file : PyBytes_AS_STRING(encoded), parts, &self->archive);
  Py_XSETREF(self->path, PyUnicode_DecodeFSDefault(PyBytes_AS_STRING(encoded)));
  Py_DECREF(encoded);
  if (!self->path) return -1;
  if (problem) {
    PyErr_Format(archive_error, "%U: %s; build or copy the file again",
                 self->path, problem);
    return -1;
  }
  return 0;
}

static void archive_dealloc(ArchiveObject* self) {
  par_archive_close(&self->archive);
  Py_XDECREF(self->path);
  Py_TYPE(self)->tp_free((PyObject*)self);
}

// Unmarshals the bytes [offset, offset + size), which must be inside the file.
// If they are not plain data, returns NULL without setting an exception.
static PyObject* plain_data(ArchiveObject* self, uint64_t offset,
                            uint64_t size) {
  const unsigned char* data = self->archive.base + offset;
  if (!par_is_plain_data(data, size)) return NULL;
  PyObject* value =
      PyMarshal_ReadObjectFromString((const char*)data, (Py_ssize_t)size);
  if (!value) PyErr_Clear();  // marshal rejects invalid UTF-8
  return value;
}

static PyObject* archive_index(ArchiveObject* self, PyObject* unused) {
  (void)unused;
  const struct par_archive* archive = &self->archive;
  if (!archive->base) return damaged(self, "the archive");
  PyObject* index = plain_data(self, archive->footer.index_offset,
                               archive->footer.index_size);
  if (index && par_index_fits(index, archive->size)) return index;
  Py_XDECREF(index);
  return damaged(self, "the index");
}

static PyObject* archive_section(ArchiveObject* self, PyObject* args) {
  const char* kind;
  unsigned long long offset, size, hash;
  if (!PyArg_ParseTuple(args, "sKKK", &kind, &offset, &size, &hash)) {
    return NULL;
  }
  PyObject* section = NULL;
  if (par_archive_intact(&self->archive, offset, size, hash)) {
    section = plain_data(self, offset, size);
  }
  if (section && par_section_fits(kind, section, self->archive.size)) {
    return section;
  }
  Py_XDECREF(section);
  return damaged(self, "the index");
}

static int locate(ArchiveObject* self, PyObject* args,
                  unsigned long long* offset, unsigned long long* size) {
  unsigned long long hash;
  const char* name = "an entry";
  if (!PyArg_ParseTuple(args, "KKK|s", offset, size, &hash, &name)) return 0;
  if (par_archive_intact(&self->archive, *offset, *size, hash)) return 1;
  damaged(self, name);
  return 0;
}

static PyObject* archive_load(ArchiveObject* self, PyObject* args) {
  unsigned long long offset, size;
  if (!locate(self, args, &offset, &size)) return NULL;
  return PyMarshal_ReadObjectFromString(
      (const char*)self->archive.base + offset, (Py_ssize_t)size);
}

static PyObject* archive_read(ArchiveObject* self, PyObject* args) {
  unsigned long long offset, size;
  if (!locate(self, args, &offset, &size)) return NULL;
  return PyBytes_FromStringAndSize((const char*)self->archive.base + offset,
                                   (Py_ssize_t)size);
}

static PyObject* archive_slice(ArchiveObject* self, PyObject* args) {
  unsigned long long offset, size;
  if (!PyArg_ParseTuple(args, "KK", &offset, &size)) return NULL;
  if (offset > self->archive.size || size > self->archive.size - offset) {
    return damaged(self, "the index");
  }
  return PyBytes_FromStringAndSize((const char*)self->archive.base + offset,
                                   (Py_ssize_t)size);
}

// Appends the frames of `job` to `out`. `job` is a tuple (name, fd, offset,
// ((packed, size), ...)). Returns 1, or 0 with an exception set.
static int add_frames(ArchiveObject* self, PyObject* job, struct par_frame* out,
                      size_t* count) {
  const char* name;
  int fd;
  unsigned long long offset;
  PyObject* sizes;
  if (!PyArg_ParseTuple(job, "siKO!", &name, &fd, &offset, &PyTuple_Type,
                        &sizes)) {
    return 0;
  }
  uint64_t target = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); i++) {
    unsigned long long compressed, size;
    PyObject* pair = PyTuple_GET_ITEM(sizes, i);
    if (!PyTuple_Check(pair) ||
        !PyArg_ParseTuple(pair, "KK", &compressed, &size)) {
      if (!PyErr_Occurred()) damaged(self, "the index");
      return 0;
    }
    if (offset > self->archive.size ||
        compressed > self->archive.size - offset) {
      damaged(self, "the index");
      return 0;
    }
    out[(*count)++] = (struct par_frame){
        .name = name,
        .fd = fd,
        .target = target,
        .data = self->archive.base + offset,
        .compressed = (size_t)compressed,
        .size = (size_t)size,
    };
    offset += compressed;
    target += size;
  }
  return 1;
}

static PyObject* archive_unpack(ArchiveObject* self, PyObject* args) {
  PyObject* jobs;
  int threads;
  if (!PyArg_ParseTuple(args, "O!i:unpack", &PyList_Type, &jobs, &threads)) {
    return NULL;
  }
  size_t total = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(jobs); i++) {
    PyObject* job = PyList_GET_ITEM(jobs, i);
    if (!PyTuple_Check(job) || PyTuple_GET_SIZE(job) != 4 ||
        !PyTuple_Check(PyTuple_GET_ITEM(job, 3))) {
      PyErr_SetString(PyExc_TypeError,
                      "a job is (name, fd, offset, ((packed, size), ...))");
      return NULL;
    }
    total += (size_t)PyTuple_GET_SIZE(PyTuple_GET_ITEM(job, 3));
  }
  struct par_frame* frames = PyMem_Calloc(total + 1, sizeof(*frames));
  if (!frames) return PyErr_NoMemory();
  size_t count = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(jobs); i++) {
    if (!add_frames(self, PyList_GET_ITEM(jobs, i), frames, &count)) {
      PyMem_Free(frames);
      return NULL;
    }
  }
  enum par_unpack_status status;
  size_t failed = 0;
  int error = 0;
  Py_BEGIN_ALLOW_THREADS;
  status = par_unpack(frames, count, threads, &failed, &error);
  Py_END_ALLOW_THREADS;
  // The name outlives `frames`, because `jobs` owns it.
  const char* culprit = status == PAR_UNPACK_OK ? NULL : frames[failed].name;
  PyMem_Free(frames);
  if (status == PAR_UNPACK_DAMAGED) return damaged(self, culprit);
  if (status == PAR_UNPACK_IO) {
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  Py_RETURN_NONE;
}

static PyMethodDef archive_methods[] = {
    {"index", (PyCFunction)archive_index, METH_NOARGS,
     "index() -> the unmarshalled index"},
    {"section", (PyCFunction)archive_section, METH_VARARGS,
     "section(kind, offset, size, hash) -> a table of the index, verified"},
    {"load", (PyCFunction)archive_load, METH_VARARGS,
     "load(offset, size, hash, name='') -> unmarshalled object, verified"},
    {"read", (PyCFunction)archive_read, METH_VARARGS,
     "read(offset, size, hash, name='') -> stored bytes, verified"},
    {"slice", (PyCFunction)archive_slice, METH_VARARGS,
     "slice(offset, size) -> stored bytes, not verified"},
    {"unpack", (PyCFunction)archive_unpack, METH_VARARGS,
     "unpack([(name, fd, offset, ((packed, size), ...)), ...], threads)"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject archive_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_par.Archive",
    .tp_basicsize = sizeof(ArchiveObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Archive(path, file=path, parts=None): a mapped PAR archive.",
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)archive_init,
    .tp_dealloc = (destructor)archive_dealloc,
    .tp_methods = archive_methods,
};

static PyObject* par_compress(PyObject* module, PyObject* args) {
  (void)module;
  Py_buffer data;
  int level;
  if (!PyArg_ParseTuple(args, "y*i:compress", &data, &level)) return NULL;
  size_t bound = ZSTD_compressBound((size_t)data.len);
  PyObject* out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bound);
  size_t got = 0;
  if (out) {
    Py_BEGIN_ALLOW_THREADS;
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    got = ZSTD_compress2(context, PyBytes_AS_STRING(out), bound, data.buf,
                         (size_t)data.len);
    ZSTD_freeCCtx(context);
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&data);
  if (!out) return NULL;
  if (ZSTD_isError(got)) {
    Py_DECREF(out);
    return PyErr_Format(PyExc_RuntimeError, "zstd: %s", ZSTD_getErrorName(got));
  }
  _PyBytes_Resize(&out, (Py_ssize_t)got);
  return out;
}

// Returns the total uncompressed size according to the headers of all frames in
// `data`, or UINT64_MAX if a header is damaged.
static uint64_t unpacked_size(const char* data, size_t size) {
  uint64_t sum = 0;
  while (size) {
    size_t packed = ZSTD_findFrameCompressedSize(data, size);
    unsigned long long content = ZSTD_getFrameContentSize(data, size);
    if (ZSTD_isError(packed) || content >= ZSTD_CONTENTSIZE_ERROR - 1 ||
        content > SIZE_MAX / 2 - sum) {
      return UINT64_MAX;
    }
    sum += content;
    data += packed;
    size -= packed;
  }
  return sum;
}

static PyObject* par_decompress(PyObject* module, PyObject* args) {
  (void)module;
  Py_buffer data;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "y*n:decompress", &data, &size)) return NULL;
  // Before allocating `size` bytes, check that the headers state this size.
  if (size < 0 || unpacked_size(data.buf, (size_t)data.len) != (uint64_t)size) {
    PyBuffer_Release(&data);
    PyErr_SetString(PyExc_ValueError, "damaged zstd data");
    return NULL;
  }
  PyObject* out = PyBytes_FromStringAndSize(NULL, size);
  if (out) {
    // This call decompresses all consecutive frames.
    size_t got = ZSTD_decompress(PyBytes_AS_STRING(out), (size_t)size, data.buf,
                                 (size_t)data.len);
    if (ZSTD_isError(got) || got != (size_t)size) {
      Py_CLEAR(out);
      PyErr_SetString(PyExc_ValueError, "damaged zstd data");
    }
  }
  PyBuffer_Release(&data);
  return out;
}

static PyObject* par_hash(PyObject* module, PyObject* args) {
  (void)module;
  Py_buffer data;
  if (!PyArg_ParseTuple(args, "y*:hash", &data)) return NULL;
  XXH64_hash_t value = XXH64(data.buf, (size_t)data.len, 0);
  PyBuffer_Release(&data);
  return PyLong_FromUnsignedLongLong(value);
}

static PyObject* par_dlopen(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* path;
  if (!PyArg_ParseTuple(args, "O&:dlopen", PyUnicode_FSConverter, &path)) {
    return NULL;
  }
  // The handle is never closed, so the library stays loaded until the process
  // exits.
  void* handle = dlopen(PyBytes_AS_STRING(path), RTLD_NOW | RTLD_LOCAL);
  Py_DECREF(path);
  if (!handle) {
    PyErr_SetString(PyExc_OSError, dlerror());
    return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject* par_is_loaded(PyObject* module, PyObject* args) {
  (void)module;
  const char* soname;
  if (!PyArg_ParseTuple(args, "s:is_loaded", &soname)) return NULL;
  void* handle = dlopen(soname, RTLD_NOLOAD | RTLD_LAZY);
  if (handle) dlclose(handle);
  return PyBool_FromLong(handle != NULL);
}

static PyObject* par_static_names(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  PyObject* names = PyList_New(0);
  for (const struct par_static_extension* e = par_static_extensions;
       names && e->name; e++) {
    PyObject* name = PyUnicode_FromString(e->name);
    if (!name || PyList_Append(names, name) != 0) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

// A module with single-phase initialization takes its __name__ from this
// variable. Otherwise, the module `pkg._x` would be named `_x`, and its
// functions could not be pickled.
extern const char* _Py_PackageContext;

static PyObject* par_create_static(PyObject* module, PyObject* spec) {
  (void)module;
  PyObject* imp = PyImport_ImportModule("_imp");
  PyObject* name = imp ? PyObject_GetAttrString(spec, "name") : NULL;
  const char* full = name ? PyUnicode_AsUTF8(name) : NULL;
  PyObject* result = NULL;
  if (full) {
    const char* saved = _Py_PackageContext;
    _Py_PackageContext = full;
    result = PyObject_CallMethod(imp, "create_builtin", "O", spec);
    _Py_PackageContext = saved;
  }
  Py_XDECREF(name);
  Py_XDECREF(imp);
  return result;
}

static PyObject* par_exit(PyObject* module, PyObject* args) {
  (void)module;
  int status;
  if (!PyArg_ParseTuple(args, "i:exit", &status)) return NULL;
  fflush(stdout);  // flushes the output that C and C++ libraries have buffered
  _exit(status);
}

static PyMethodDef methods[] = {
    {"compress", par_compress, METH_VARARGS,
     "compress(data, level) -> one zstd frame with a checksum"},
    {"decompress", par_decompress, METH_VARARGS,
     "decompress(data, size) -> bytes of all frames in data"},
    {"hash", par_hash, METH_VARARGS, "hash(data) -> XXH64 as int"},
    {"dlopen", par_dlopen, METH_VARARGS, "dlopen(path): load, never unload"},
    {"is_loaded", par_is_loaded, METH_VARARGS,
     "is_loaded(soname): whether this process has loaded the library"},
    {"exit", par_exit, METH_VARARGS,
     "exit(status): flush C's stdout and end the process at once"},
    {"static_names", par_static_names, METH_NOARGS,
     "static_names() -> dotted names of the extensions linked in"},
    {"create_static", par_create_static, METH_O,
     "create_static(spec) -> the module of an extension linked in"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_par",
    .m_doc = "The C functions that a PAR's runtime needs.",
    .m_size = -1,
    .m_methods = methods,
};

PyObject* PyInit__par(void) {
  if (PyType_Ready(&archive_type) != 0) return NULL;
  PyObject* module = PyModule_Create(&definition);
  if (!module) return NULL;
  archive_error = PyErr_NewExceptionWithDoc(
      "_par.ArchiveError",
      "The archive cannot be read: ends the program with one line.",
      PyExc_SystemExit, NULL);
  if (!archive_error ||
      PyModule_AddObjectRef(module, "ArchiveError", archive_error) != 0 ||
      PyModule_AddObjectRef(module, "Archive", (PyObject*)&archive_type) != 0) {
    Py_CLEAR(module);
  }
  return module;
}
