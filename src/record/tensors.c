/* tensors.c - the safetensors layout, written whole and read with suspicion.
 *
 *   write:  header with 64 zeros for the hash -> hash of everything -> digits into the header -> one
 *           atomic file
 *   read:   length -> JSON -> every entry, the offsets without gap or overlap up to the last byte -> hash
 *
 * Nothing in a file is believed before it is checked, so that a reader may use the arrays without a second
 * look.
 */
#include "record/tensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text.h"
#include "record/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "floats go to and from the file as they lie in memory");

enum { PREFIX = 8, DIGITS = 64, MOST_DIMS = 4 };

static const char METADATA[] = "__metadata__";
static const char HASH_KEY[] =
    "\"sha256\":\""; /* a quote inside a text is escaped, so this occurs only as the key */

/* Where the digits of the hash lie in the head (prefix and header); 0 when there are none. */
static size_t find_digits(const char *head, size_t n)
{
    const char *key = memmem(head, n, HASH_KEY, sizeof HASH_KEY - 1);
    size_t at = key ? (size_t)(key - head) + sizeof HASH_KEY - 1 : n;
    return n - at > DIGITS && head[at + DIGITS] == '"' ? at : 0;
}

/* The hash over all pieces, the digits at `digits_at` of the first read as zeros. */
static fault hash_pieces(const struct piece *pieces, size_t n, size_t digits_at, char hex[SHA256_HEX])
{
    struct sha256 h;
    char zeros[DIGITS];
    memset(zeros, '0', DIGITS);
    TRY(sha256_open(&h));
    size_t rest = digits_at + DIGITS;
    sha256_add(&h, pieces[0].bytes, digits_at);
    sha256_add(&h, zeros, DIGITS);
    sha256_add(&h, (const char *)pieces[0].bytes + rest, pieces[0].n - rest);
    for (size_t i = 1; i < n; i++)
        sha256_add(&h, pieces[i].bytes, pieces[i].n);
    sha256_close(&h, hex);
    return OK;
}

/* ---- writing ---- */

static size_t count_floats(const struct named_floats *t)
{
    size_t n = 1;
    for (size_t i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

static size_t size_of_one(const struct named_floats *t)
{
    return t->doubles ? sizeof(double) : sizeof(float);
}

static json_t *tensor_entry(const struct named_floats *t, size_t begin, size_t end)
{
    json_t *shape = json_array();
    for (size_t i = 0; i < t->n_dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)t->dims[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", t->doubles ? "F64" : "F32", "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)end);
}

static fault add_metadata(json_t *texts, const struct metadata *metadata, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *key = metadata[i].key;
        if (text_is(key, "sha256") || json_object_get(texts, key))
            return FAIL(FAULT_USAGE, "metadata: the key '%s' is taken", key);
        if (json_object_set_new(texts, key, json_string(metadata[i].text)) != 0)
            return FAIL(FAULT_USAGE, "metadata: '%s' is not UTF-8 text", key);
    }
    char zeros[DIGITS + 1] = {0};
    memset(zeros, '0', DIGITS);
    return json_object_set_new(texts, "sha256", json_string(zeros)) == 0 ? OK : OUT_OF_MEMORY;
}

static fault add_tensors(json_t *root, const struct named_floats *tensors, size_t n)
{
    size_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        const struct named_floats *t = &tensors[i];
        if (t->doubles && i && !tensors[i - 1].doubles)
            return FAIL(FAULT_USAGE, "tensor '%s': doubles come before floats", t->name);
        if (t->n_dims > MOST_DIMS || json_object_get(root, t->name))
            return FAIL(FAULT_USAGE, "tensor '%s': has more than %d dimensions or a name that is taken",
                        t->name, MOST_DIMS);
        size_t end = offset + count_floats(t) * size_of_one(t);
        if (json_object_set_new(root, t->name, tensor_entry(t, offset, end)) != 0)
            return FAIL(FAULT_USAGE, "tensor '%s': the name is not UTF-8 text", t->name);
        offset = end;
    }
    return OK;
}

/* The length and the padded header. Caller frees. */
static fault make_head(const struct named_floats *tensors, size_t n_tensors, const struct metadata *metadata,
                       size_t n_metadata, char **out, size_t *n_out)
{
    json_t *root = json_object(), *texts = json_object();
    fault f = json_object_set_new(root, METADATA, texts) == 0 ? OK : OUT_OF_MEMORY;
    if (!f)
        f = add_metadata(texts, metadata, n_metadata);
    if (!f)
        f = add_tensors(root, tensors, n_tensors);
    char *text = f ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (f)
        return f;
    size_t n_text = text ? strlen(text) : 0;
    uint64_t length = round_up(n_text, PREFIX);
    char *head = malloc(PREFIX + length);
    if (text && head) {
        memcpy(head, &length, PREFIX);
        memset(head + PREFIX, ' ', length);
        memcpy(head + PREFIX, text, n_text);
        *out = head;
        *n_out = PREFIX + length;
    }
    if (!text)
        free(head);
    free(text);
    return text && head ? OK : OUT_OF_MEMORY;
}

fault tensors_write(const char *path, const struct named_floats *tensors, size_t n_tensors,
                    const struct metadata *metadata, size_t n_metadata)
{
    struct piece *pieces = malloc((n_tensors + 1) * sizeof *pieces);
    char *head = NULL, hex[SHA256_HEX];
    size_t n_head = 0, digits_at;
    fault f = OK;
    if (!pieces)
        return OUT_OF_MEMORY;
    TRY_OR(free_pieces, f, make_head(tensors, n_tensors, metadata, n_metadata, &head, &n_head));
    pieces[0] = (struct piece){head, n_head};
    for (size_t i = 0; i < n_tensors; i++)
        pieces[i + 1] = (struct piece){tensors[i].doubles ? (const void *)tensors[i].doubles : tensors[i].floats,
                                       count_floats(&tensors[i]) * size_of_one(&tensors[i])};
    digits_at = find_digits(head, n_head);
    TRY_OR(free_pieces, f, hash_pieces(pieces, n_tensors + 1, digits_at, hex));
    memcpy(head + digits_at, hex, DIGITS);
    f = file_replace(path, pieces, n_tensors + 1);
free_pieces:
    free(head);
    free(pieces);
    return f;
}

/* ---- reading ---- */

#define BROKEN(name, ...) fault_before(FAIL(FAULT_CHECKPOINT, __VA_ARGS__), "%s: ", name)

/* A whole number from 0 to most, exactly; false for anything else. */
static bool read_size(const json_t *value, size_t most, size_t *out)
{
    if (!json_is_integer(value))
        return false;
    json_int_t n = json_integer_value(value);
    if (n < 0 || (uint64_t)n > most)
        return false;
    *out = (size_t)n;
    return true;
}

/* dims and their product; false when there are too many or the product passes `most`. */
static bool read_shape(const json_t *shape, size_t most, struct named_floats *t, size_t *size)
{
    if (!json_is_array(shape) || json_array_size(shape) > MOST_DIMS)
        return false;
    t->n_dims = json_array_size(shape);
    *size = 1;
    for (size_t i = 0; i < t->n_dims; i++) {
        if (!read_size(json_array_get(shape, i), most, &t->dims[i]))
            return false;
        if (__builtin_mul_overflow(*size, t->dims[i], size))
            return false;
    }
    return *size <= most;
}

/* One entry, whose data must begin at *offset of the `n_data` bytes; moves the offset to their end. */
static fault read_entry(const json_t *entry, const char *name, const char *data, size_t n_data,
                        size_t *offset, struct named_floats *t)
{
    size_t begin, end, size;
    const json_t *ends = json_object_get(entry, "data_offsets");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype || json_object_size(entry) != 3)
        return BROKEN(name, "tensor '%.100s' is not described by dtype, shape and data_offsets", t->name);
    bool doubles = text_is(dtype, "F64");
    size_t one = doubles ? sizeof(double) : sizeof(float);
    if (!doubles && !text_is(dtype, "F32"))
        return BROKEN(name, "tensor '%.100s' has the type '%.20s'; only F32 and F64 are known", t->name, dtype);
    if (!read_shape(json_object_get(entry, "shape"), n_data / one, t, &size))
        return BROKEN(name, "tensor '%.100s' has a shape that does not fit into the file", t->name);
    if (json_array_size(ends) != 2 || !read_size(json_array_get(ends, 0), n_data, &begin) ||
        !read_size(json_array_get(ends, 1), n_data, &end))
        return BROKEN(name, "tensor '%.100s' does not lie within the %zu bytes of data", t->name, n_data);
    if (begin != *offset)
        return BROKEN(name,
                      "tensor '%.100s' begins at byte %zu of the data and not where the last one ends, %zu",
                      t->name, begin, *offset);
    if (end < begin || end - begin != size * one)
        return BROKEN(name, "tensor '%.100s' takes bytes %zu to %zu of the data, its shape says %zu bytes",
                      t->name, begin, end, size * one);
    if (begin % one)
        return BROKEN(name, "tensor '%.100s' begins at byte %zu of the data, which is no multiple of %zu", t->name, begin, one);
    if (doubles)
        t->doubles = (const double *)(const void *)(data + begin);
    else
        t->floats = (const float *)(const void *)(data + begin);
    *offset = end;
    return OK;
}

static fault read_metadata(json_t *texts, const char *name, struct tensors *out)
{
    if (!json_is_object(texts))
        return BROKEN(name, "%s is not a map of texts", METADATA);
    const char *key;
    json_t *text;
    out->metadata = ARENA_NEW(&out->arena, struct metadata, json_object_size(texts));
    if (!out->metadata)
        return OUT_OF_MEMORY;
    json_object_foreach(texts, key, text)
    {
        if (!json_is_string(text))
            return BROKEN(name, "%s: '%.100s' is not a text", METADATA, key);
        struct metadata *m = &out->metadata[out->n_metadata++];
        m->key = arena_text(&out->arena, key);
        m->text = arena_text(&out->arena, json_string_value(text));
        if (!m->key || !m->text)
            return OUT_OF_MEMORY;
    }
    return OK;
}

static fault read_header(json_t *root, const char *name, const char *data, size_t n_data, struct tensors *out)
{
    const char *key;
    json_t *value;
    size_t offset = 0;
    out->at = ARENA_NEW(&out->arena, struct named_floats, json_object_size(root));
    if (!out->at)
        return OUT_OF_MEMORY;
    json_object_foreach(root, key, value)
    {
        if (text_is(key, METADATA)) {
            TRY(read_metadata(value, name, out));
            continue;
        }
        struct named_floats *t = &out->at[out->n++];
        t->name = arena_text(&out->arena, key);
        if (!t->name)
            return OUT_OF_MEMORY;
        TRY(read_entry(value, name, data, n_data, &offset, t));
    }
    if (offset != n_data)
        return BROKEN(name, "the tensors end at byte %zu of the data, the file at byte %zu", offset, n_data);
    return OK;
}

static fault check_hash(const char *name, const char *bytes, size_t n_head, size_t n)
{
    char hex[SHA256_HEX];
    size_t digits_at = find_digits(bytes, n_head);
    if (!digits_at)
        return BROKEN(name, "the header holds no hash (sha256) of the file");
    struct piece pieces[] = {{bytes, n_head}, {bytes + n_head, n - n_head}};
    TRY(hash_pieces(pieces, 2, digits_at, hex));
    if (memcmp(hex, bytes + digits_at, DIGITS) != 0)
        return BROKEN(name, "the hash at byte %zu is not that of the file: some byte has changed", digits_at);
    return OK;
}

static fault check_file(const char *name, size_t n, struct tensors *out)
{
    uint64_t length;
    if (n < PREFIX)
        return BROKEN(name, "ends at byte %zu, inside the length of its header", n);
    memcpy(&length, out->bytes, PREFIX);
    if (length > n - PREFIX)
        return BROKEN(name, "ends at byte %zu, inside a header of %llu bytes", n, (unsigned long long)length);
    if (length == 0 || length % PREFIX || out->bytes[PREFIX] != '{')
        return BROKEN(name, "byte 0: this is not the length of a header");
    size_t n_head = PREFIX + (size_t)length;
    json_error_t error;
    json_t *root = json_loadb(out->bytes + PREFIX, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return BROKEN(name, "byte %d: the header is not JSON: %s", PREFIX + error.position, error.text);
    fault f = read_header(root, name, out->bytes + n_head, n - n_head, out);
    json_decref(root);
    return f ? f : check_hash(name, out->bytes, n_head, n);
}

/* Takes `bytes`. */
static fault take_file(char *bytes, size_t n, const char *name, struct tensors *out)
{
    struct tensors t = {.bytes = bytes};
    fault f = check_file(name, n, &t);
    if (f)
        tensors_release(&t);
    else
        *out = t;
    return f;
}

fault tensors_parse(const void *bytes, size_t n, const char *name, struct tensors *out)
{
    char *copy = malloc(n + 1);
    if (!copy)
        return OUT_OF_MEMORY;
    if (n)
        memcpy(copy, bytes, n);
    return take_file(copy, n, name, out);
}

fault tensors_read(const char *path, struct tensors *out)
{
    char *bytes;
    size_t n;
    TRY(file_read(path, &bytes, &n));
    return take_file(bytes, n, path, out);
}

void tensors_release(struct tensors *t)
{
    arena_release(&t->arena);
    free(t->bytes);
    *t = (struct tensors){0};
}

const struct named_floats *tensors_find(const struct tensors *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (text_is(t->at[i].name, name))
            return &t->at[i];
    return NULL;
}

const char *tensors_metadata(const struct tensors *t, const char *key)
{
    for (size_t i = 0; i < t->n_metadata; i++)
        if (text_is(t->metadata[i].key, key))
            return t->metadata[i].text;
    return NULL;
}
