/* SHA-256 against the vectors of FIPS 180-4, in one go, in pieces and from files. */
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const struct {
    const char *text, *hex;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrs"
     "tnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};
enum { N_VECTORS = sizeof vectors / sizeof *vectors };

static void known_texts_have_their_published_hashes(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_VECTORS; i++) {
        char hex[SHA256_HEX];
        assert_null(sha256_of(vectors[i].text, strlen(vectors[i].text), hex));
        assert_string_equal(hex, vectors[i].hex);
    }
}

static void the_cuts_between_pieces_do_not_matter(void **state)
{
    (void)state;
    const char *text = vectors[3].text;
    size_t n = strlen(text);
    for (size_t cut = 0; cut <= n; cut++) {
        struct sha256 h = {0};
        char hex[SHA256_HEX];
        assert_null(sha256_open(&h));
        sha256_add(&h, text, cut);
        sha256_add(&h, text + cut, n - cut);
        sha256_close(&h, hex);
        assert_string_equal(hex, vectors[3].hex);
    }
}

static void a_million_letters_have_their_published_hash(void **state)
{
    (void)state;
    char letters[1000], hex[SHA256_HEX];
    memset(letters, 'a', sizeof letters);
    struct sha256 h = {0};
    assert_null(sha256_open(&h));
    for (int i = 0; i < 1000; i++)
        sha256_add(&h, letters, sizeof letters);
    sha256_close(&h, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void a_hash_can_be_given_up(void **state)
{
    (void)state;
    struct sha256 h = {0};
    assert_null(sha256_open(&h));
    sha256_add(&h, "x", 1);
    sha256_close(&h, NULL);
    assert_null(h.state);
}

static void a_file_hashes_as_its_bytes_do(void **state)
{
    (void)state;
    enum { SIZE = 200000 }; /* several buffers and a rest */
    char path[] = "/tmp/veche-sha256-XXXXXX", of_file[SHA256_HEX], of_bytes[SHA256_HEX];
    unsigned char *bytes = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, SIZE), SIZE);
    close(file);
    assert_null(sha256_of_file(path, of_file));
    assert_null(sha256_of(bytes, SIZE, of_bytes));
    assert_string_equal(of_file, of_bytes);
    unlink(path);
    free(bytes);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    char hex[SHA256_HEX];
    fault f = sha256_of_file("/nowhere/at/all", hex);
    assert_int_equal(fault_kind_of(f), FAULT_FILE);
    assert_string_equal(fault_text(f), "/nowhere/at/all: cannot be read: No such file or directory");
    fault_drop(f);
    f = sha256_of_file("/tmp", hex);
    assert_int_equal(fault_kind_of(f), FAULT_FILE);
    assert_string_equal(fault_text(f), "/tmp: cannot be read: Is a directory");
    fault_drop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_have_their_published_hashes),
        cmocka_unit_test(the_cuts_between_pieces_do_not_matter),
        cmocka_unit_test(a_million_letters_have_their_published_hash),
        cmocka_unit_test(a_hash_can_be_given_up),
        cmocka_unit_test(a_file_hashes_as_its_bytes_do),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
