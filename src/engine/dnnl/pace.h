/* pace.h - whether a lesson is better run by all workers or by one alone.
 *
 * Sharing is faster as long as the cores are ours. Beside a busy neighbour a worker is taken off its core in
 * the middle of a piece, all others wait for it, and one worker alone may be faster. The choice goes by the
 * time that lessons took; it changes no number, since a lesson gives the same bits either way.
 *
 *   shared --(a lesson alone was faster: tried at the start and when sharing is slower than it was)--> alone
 *   alone  --(a shared lesson was clearly faster: tried now and then)-------------------------------> shared
 *
 * A trial that fails has cost something; the next one waits until that is one percent of the time since, and
 * if it fails as well a third of a percent.
 */
#ifndef VECHE_ENGINE_DNNL_PACE_H
#define VECHE_ENGINE_DNNL_PACE_H

#include <stdbool.h>

struct pace {             /* begins as { 0 } */
    double usual;         /* seconds of a shared lesson when all was well; 0: none yet */
    double shared, alone; /* seconds of late, smoothed; 0: not known                   */
    bool is_alone, was_tried;
    int n_since_trial;  /* lessons since the other way was tried */
    double since_trial; /* and their seconds                     */
    double cost;        /* seconds that the last trial lost      */
    double patience;    /* how many times as long the next waits */
};

/* How the next lesson should be run. */
bool pace_alone(struct pace *p);
/* How long it took, run that way. */
void pace_note(struct pace *p, bool was_alone, double seconds);

#endif
