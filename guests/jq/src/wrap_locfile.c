/* jq's locfile.c, with errors noted as a message and a byte span where jq would draw a picture of the line. */
#define locfile_locate locfile_locate_with_picture
#include "locfile.c"
#undef locfile_locate
#include "host.h"

/* The message in the words of somebody who does not know jq's internals. Takes it. */
static jv reworded(jv message) {
  static const char prefix[] = "jq: error: ";
  const char *text = jv_string_value(message);
  if (strncmp(text, prefix, sizeof prefix - 1) == 0)
    text += sizeof prefix - 1;

  /* A break is a variable of an impossible name to jq. */
  static const char label[] = "$*label-";
  if (strncmp(text, label, sizeof label - 1) == 0) {
    text += sizeof label - 1;
    jv clear = jv_string_fmt("break $%.*s is not inside of label $%.*s", (int)strcspn(text, " "), text, (int)strcspn(text, " "), text);
    jv_free(message);
    return clear;
  }

  /* "now/0 is not defined" */
  char name[32];
  size_t n = strcspn(text, "/");
  if (n < sizeof name && text[n] == '/' && strstr(text + n, " is not defined")) {
    memcpy(name, text, n);
    name[n] = 0;
    const char *why = why_removed(name);
    if (why) {
      jv_free(message);
      return jv_string_fmt("%s is not available: %s", name, why);
    }
  }
  jv clear = jv_string(text);
  jv_free(message);
  return clear;
}

void locfile_locate(struct locfile *l, location place, const char *format, ...) {
  (void)l;
  va_list arguments;
  va_start(arguments, format);
  jv message = jv_string_vfmt(format, arguments);
  va_end(arguments);
  note_error(place, jv_is_valid(message) ? reworded(message) : message);
}
