// SPDX-License-Identifier: Apache-2.0
/*
 * make_fatbin OUTPUT IDENTIFIER ARCH=FILE...
 *
 * Joins the images of one source into a fat binary: NVIDIA's container, from
 * which the CUDA runtime selects the image for the machine's GPU. FILE is a
 * cubin, or PTX if its name ends in .ptx. NVIDIA's program for this, fatbinary,
 * is in no wheel of CUDA 12, but its library nvFatbin is in one.
 */

#include <nvFatbin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char* file, const char* problem) {
  fprintf(stderr, "make_fatbin: %s: %s\n", file, problem);
  exit(1);
}

static void check(const char* file, nvFatbinResult result) {
  if (result != NVFATBIN_SUCCESS) {
    fail(file, nvFatbinGetErrorString(result));
  }
}

/* Returns the file's content with a zero byte after it, which nvFatbin requires
 * at the end of PTX. */
static char* content(const char* name, size_t* size) {
  FILE* file = fopen(name, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    fail(name, "cannot be read");
  }
  long length = ftell(file);
  char* text = length < 0 ? NULL : calloc((size_t)length + 1, 1);
  rewind(file);
  if (!text || fread(text, 1, (size_t)length, file) != (size_t)length) {
    fail(name, "cannot be read");
  }
  fclose(file);
  *size = (size_t)length;
  return text;
}

static void add(nvFatbinHandle handle, char* image, const char* identifier) {
  char* file = strchr(image, '=');
  if (!file) {
    fail(image, "is not ARCH=FILE, such as 90=kernel.sm_90.cubin");
  }
  *file++ = '\0';
  size_t size;
  char* text = content(file, &size);
  size_t length = strlen(file);
  if (length > 4 && strcmp(file + length - 4, ".ptx") == 0) {
    check(file, nvFatbinAddPTX(handle, text, size + 1, image, identifier, ""));
  } else {
    check(file, nvFatbinAddCubin(handle, text, size, image, identifier));
  }
  free(text);
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fail("usage", "make_fatbin OUTPUT IDENTIFIER ARCH=FILE...");
  }
  /* Do not compress, because drivers for CUDA versions before 12.4 cannot read
   * every compressed format. */
  const char* options[] = {"-64", "-cuda", "-host=linux", "-compress=false"};
  const char* output = argv[1];
  nvFatbinHandle handle;
  check(output,
        nvFatbinCreate(&handle, options, sizeof(options) / sizeof(*options)));
  for (int i = 3; i < argc; ++i) {
    add(handle, argv[i], argv[2]);
  }
  size_t size;
  check(output, nvFatbinSize(handle, &size));
  char* fatbin = malloc(size);
  if (!fatbin) {
    fail(output, "no memory");
  }
  check(output, nvFatbinGet(handle, fatbin));
  FILE* file = fopen(output, "wb");
  if (!file || fwrite(fatbin, 1, size, file) != size || fclose(file) != 0) {
    fail(output, "cannot be written");
  }
  free(fatbin);
  check(output, nvFatbinDestroy(&handle));
  return 0;
}
