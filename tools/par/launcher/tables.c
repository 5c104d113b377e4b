// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/tables.h"

#include <string.h>

struct limits {
  uint64_t size;     // size of the file in bytes
  uint64_t bundles;  // number of bundles
};

static int number(PyObject* item, uint64_t* out) {
  if (!PyLong_CheckExact(item)) return 0;
  *out = PyLong_AsUnsignedLongLong(item);
  return !PyErr_Occurred();
}

static int in_file(uint64_t offset, uint64_t size,
                   const struct limits* limits) {
  return offset <= limits->size && size <= limits->size - offset;
}

// Returns 1 if `item` is a relative path with at most `parts` components, none
// of which is empty, "." or "..".
static int path(PyObject* item, int parts) {
  Py_ssize_t length;
  const char* text = PyUnicode_CheckExact(item)
                         ? PyUnicode_AsUTF8AndSize(item, &length)
                         : NULL;
  if (!text || (size_t)length != strlen(text)) return 0;
  for (; parts-- > 0; text++) {
    size_t part = strcspn(text, "/");
    if (part == 0 || (part == 1 && text[0] == '.') ||
        (part == 2 && memcmp(text, "..", 2) == 0)) {
      return 0;
    }
    text += part;
    if (!*text) return 1;
  }
  return 0;
}

static int strings(PyObject* items) {
  if (!PyTuple_CheckExact(items)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
    if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(items, i))) return 0;
  }
  return 1;
}

// Returns 1 if `items` is a tuple ((packed, size), ...) with the sizes of
// consecutive frames that start at `offset` and unpack to `whole` bytes in
// total.
static int frames(PyObject* items, uint64_t offset, uint64_t whole,
                  const struct limits* limits) {
  if (!PyTuple_CheckExact(items)) return 0;
  uint64_t packed, size, sum = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
    PyObject* pair = PyTuple_GET_ITEM(items, i);
    if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2 ||
        !number(PyTuple_GET_ITEM(pair, 0), &packed) ||
        !number(PyTuple_GET_ITEM(pair, 1), &size) ||
        !in_file(offset, packed, limits) || size > whole - sum) {
      return 0;
    }
    offset += packed;
    sum += size;
  }
  return sum == whole;
}

// Returns 1 if `items` is a tuple that matches `shape`, which has one letter
// per item: n a bundle's index, p a path, P a path or "", c a name without a
// slash, s a string, S a string or None, w strings, b a bool, u an unsigned
// integer, o an offset, z the size of the range that starts at the preceding o,
// f the frames that start at the preceding o and unpack to the preceding u
// bytes.
static int row(PyObject* items, const char* shape,
               const struct limits* limits) {
  if (!PyTuple_CheckExact(items) ||
      (size_t)PyTuple_GET_SIZE(items) != strlen(shape)) {
    return 0;
  }
  uint64_t value = 0, last = 0, offset = 0;
  for (Py_ssize_t i = 0; shape[i]; i++) {
    PyObject* item = PyTuple_GET_ITEM(items, i);
    int good = 0;
    switch (shape[i]) {
      case 'b':
        good = PyBool_Check(item);
        break;
      case 'c':
        good = path(item, 1);
        break;
      case 'f':
        good = frames(item, offset, last, limits);
        break;
      case 'n':
        good = number(item, &value) && value < limits->bundles;
        break;
      case 'o':
        good = number(item, &offset) && offset <= limits->size;
        break;
      case 'p':
        good = path(item, INT_MAX);
        break;
      case 'P':
        good = PyUnicode_CheckExact(item) &&
               (PyUnicode_GET_LENGTH(item) == 0 || path(item, INT_MAX));
        break;
      case 's':
        good = PyUnicode_CheckExact(item);
        break;
      case 'S':
        good = item == Py_None || PyUnicode_CheckExact(item);
        break;
      case 'u':
        good = number(item, &last);
        break;
      case 'w':
        good = strings(item);
        break;
      case 'z':
        good = number(item, &value) && in_file(offset, value, limits);
        break;
    }
    if (!good) return 0;
  }
  return 1;
}

// Returns 1 if `table` is a dictionary of valid keys and values. If `shape` is
// NULL, each value must be a string. Otherwise, each value must be a tuple that
// row() accepts for `shape` or, if `many` is 1, a non-empty tuple of such
// tuples. Each key must be a string and, if `keys` is 'p', a path.
static int rows(PyObject* table, const char* shape, int many, char keys,
                const struct limits* limits) {
  if (!table || !PyDict_CheckExact(table)) return 0;
  PyObject *key, *item;
  Py_ssize_t position = 0;
  while (PyDict_Next(table, &position, &key, &item)) {
    if (keys == 'p' ? !path(key, INT_MAX) : !PyUnicode_CheckExact(key))
      return 0;
    if (!shape) {
      if (!PyUnicode_CheckExact(item)) return 0;
    } else if (!many) {
      if (!row(item, shape, limits)) return 0;
    } else {
      if (!PyTuple_CheckExact(item) || PyTuple_GET_SIZE(item) == 0) return 0;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item); i++) {
        if (!row(PyTuple_GET_ITEM(item, i), shape, limits)) return 0;
      }
    }
  }
  return 1;
}

static int list_of(PyObject* items, const char* shape, uint64_t count,
                   const struct limits* limits) {
  if (!items || !PyList_CheckExact(items) ||
      (uint64_t)PyList_GET_SIZE(items) != count) {
    return 0;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); i++) {
    if (!row(PyList_GET_ITEM(items, i), shape, limits)) return 0;
  }
  return 1;
}

static int sections_fit(PyObject* sections, const struct limits* limits) {
  static const char* const kOfEachBundle[] = {"files", "natives", "developer"};
  if (!sections || !PyDict_CheckExact(sections)) return 0;
  for (int i = 0; i < 3; i++) {
    PyObject* items = PyDict_GetItemString(sections, kOfEachBundle[i]);
    if (!list_of(items, "ozu", limits->bundles, limits)) return 0;
  }
  return list_of(PyDict_GetItemString(sections, "info"), "ozu", 1, limits);
}

static int settings_fit(PyObject* settings) {
  if (!settings || !PyDict_CheckExact(settings)) return 0;
  if (PyDict_GET_SIZE(settings) == 0)
    return 1;  // a bundle is not a program and has no settings
  PyObject* main = PyDict_GetItemString(settings, "main");
  PyObject* early = PyDict_GetItemString(settings, "early_imports");
  return main && PyUnicode_CheckExact(main) && (!early || strings(early));
}

static int index_fits(PyObject* index, uint64_t size) {
  if (!PyDict_CheckExact(index)) return 0;
  struct limits limits = {.size = size};
  PyObject* bundles = PyDict_GetItemString(index, "bundles");
  if (!bundles || !PyList_CheckExact(bundles)) return 0;
  limits.bundles = (uint64_t)PyList_GET_SIZE(bundles);
  PyObject* table[] = {
      PyDict_GetItemString(index, "modules"),
      PyDict_GetItemString(index, "extensions"),
      PyDict_GetItemString(index, "distributions"),
      PyDict_GetItemString(index, "namespaces"),
      PyDict_GetItemString(index, "environment"),
  };
  return list_of(bundles, "cPbcbw", limits.bundles, &limits) &&
         rows(table[0], "npbozuu", 0, 's', &limits) &&
         rows(table[1], "np", 0, 's', &limits) &&
         rows(table[2], "nps", 0, 's', &limits) &&
         rows(table[3], "np", 1, 's', &limits) &&
         rows(table[4], NULL, 0, 's', &limits) &&
         sections_fit(PyDict_GetItemString(index, "sections"), &limits) &&
         settings_fit(PyDict_GetItemString(index, "settings"));
}

int par_index_fits(PyObject* index, uint64_t size) {
  int fits = index_fits(index, size);
  PyErr_Clear();  // an invalid number or string raised an exception
  return fits;
}

int par_section_fits(const char* kind, PyObject* section, uint64_t size) {
  struct limits limits = {.size = size};
  int fits = 0;
  if (strcmp(kind, "files") == 0) {
    fits = rows(section, "uozuuub", 0, 'p', &limits);
  } else if (strcmp(kind, "natives") == 0) {
    fits = rows(section, "uoufSwu", 0, 'p', &limits);
  } else if (strcmp(kind, "developer") == 0) {
    fits = strings(section);
  } else if (strcmp(kind, "info") == 0) {
    fits = PyDict_CheckExact(section);
  }
  PyErr_Clear();
  return fits;
}
