// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/plain_data.h"

#include <stdint.h>
#include <stdlib.h>

#define MAX_DEPTH 64
// marshal's FLAG_REF: the value gets the next reference index, by which a later
// 'r' (TYPE_REF) can refer to it.
#define REFERENCED 0x80

enum kind { BAD, UNFINISHED, VALUE, TEXT, END };

struct reader {
  const unsigned char* data;
  size_t size;
  size_t position;
  unsigned char* kinds;  // the kind of each numbered value
  size_t count;
};

static int skip(struct reader* in, size_t bytes) {
  if (bytes > in->size - in->position) return 0;
  in->position += bytes;
  return 1;
}

static int read_number(struct reader* in, size_t bytes, uint32_t* number) {
  const unsigned char* from = in->data + in->position;
  if (!skip(in, bytes)) return 0;
  *number = 0;
  for (size_t i = 0; i < bytes; i++) *number |= (uint32_t)from[i] << 8 * i;
  return 1;
}

static enum kind value(struct reader* in, int depth);

static enum kind sequence(struct reader* in, size_t bytes, int depth) {
  uint32_t count;
  if (!read_number(in, bytes, &count) || count > in->size - in->position) {
    return BAD;
  }
  for (uint32_t i = 0; i < count; i++) {
    enum kind item = value(in, depth + 1);
    if (item == BAD || item == END) return BAD;
  }
  return VALUE;
}

static enum kind dictionary(struct reader* in, int depth) {
  for (;;) {
    enum kind item = value(in, depth + 1);
    if (item == END) return VALUE;
    if (item != TEXT) return BAD;
    item = value(in, depth + 1);
    if (item == BAD || item == END) return BAD;
  }
}

static enum kind content(struct reader* in, int type, int depth) {
  uint32_t number;
  switch (type) {
    case '0':
      return END;
    case 'N':
    case 'T':
    case 'F':
      return VALUE;
    case 'i':
      return skip(in, 4) ? VALUE : BAD;
    case 'g':
      return skip(in, 8) ? VALUE : BAD;
    case 'l':
      if (!read_number(in, 4, &number)) return BAD;
      if (number & 0x80000000u) number = -number;  // the sign bit is set
      return skip(in, (size_t)number * 2) ? VALUE : BAD;
    case 's':
      return read_number(in, 4, &number) && skip(in, number) ? VALUE : BAD;
    case 't':
    case 'u':
    case 'a':
    case 'A':
      return read_number(in, 4, &number) && skip(in, number) ? TEXT : BAD;
    case 'z':
    case 'Z':
      return read_number(in, 1, &number) && skip(in, number) ? TEXT : BAD;
    case '(':
    case '[':
      return sequence(in, 4, depth);
    case ')':
      return sequence(in, 1, depth);
    case '{':
      return dictionary(in, depth);
    default:
      return BAD;
  }
}

static enum kind value(struct reader* in, int depth) {
  uint32_t type, number;
  if (depth > MAX_DEPTH || !read_number(in, 1, &type)) return BAD;
  if (type == 'r') {
    if (!read_number(in, 4, &number) || number >= in->count) return BAD;
    return in->kinds[number] == UNFINISHED ? BAD : in->kinds[number];
  }
  // None, True, False and the marker at the end of a dictionary get no
  // reference index, even if FLAG_REF is set.
  int plain = type & ~REFERENCED;
  int numbered = type & REFERENCED && plain != 'N' && plain != 'T' &&
                 plain != 'F' && plain != '0';
  size_t slot = in->count;
  if (numbered) in->kinds[in->count++] = UNFINISHED;
  enum kind result = content(in, plain, depth);
  if (numbered) in->kinds[slot] = (unsigned char)result;
  return result;
}

int par_is_plain_data(const unsigned char* data, size_t size) {
  struct reader in = {.data = data, .size = size};
  in.kinds = malloc(size + 1);  // enough: each value takes at least a byte
  if (!in.kinds) return 0;
  enum kind result = value(&in, 0);
  free(in.kinds);
  return (result == VALUE || result == TEXT) && in.position == size;
}
