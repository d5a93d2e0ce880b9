/* trouble.h - plays random worlds full of trouble (worlds.h) and judges how each of them ends. */
#ifndef VECHE_TESTS_TROUBLE_H
#define VECHE_TESTS_TROUBLE_H

#include <stddef.h>

struct cast;

/* Seen over all worlds. */
struct trouble {
    unsigned all_down; /* nobody came to its end */
    unsigned noted;    /* somebody said the words */
    unsigned went_on;  /* said them, and yet somebody who learns came to its end */
};

/* Asserts of each world: it comes to an end soon, everybody's life ends in a stated way, those that learn
 * have done all their rounds, no message is lost uncounted or counted twice, no row is left behind. *state is
 * the text of the world that is being played, for show_the_world_that_failed. */
struct trouble play_worlds_of_trouble(const char *const *strategies, size_t n_strategies, unsigned n_worlds,
                                      const char *words, void **state);
/* Every message that was sent has come to one of its ends, and no row is held by anything else. */
void no_message_was_lost_or_doubled(const struct cast *g);
int show_the_world_that_failed(void **state); /* a teardown */

#endif
