/* profile.h - where the time of a lesson goes in the engine `dnnl`. */
#ifndef VECHE_ENGINE_DNNL_PROFILE_H
#define VECHE_ENGINE_DNNL_PROFILE_H

#include "engine/engine.h"

struct profile_line {
    const char *layer; /* the op's name, "" for what belongs to none; lives as long as the engine's graph */
    const char *job;   /* what was done                                                                  */
    int phase;         /* when                                                                           */
    double seconds;    /* so far, of all workers together                                                */
};

/* Begins to take the time of every job; costs some nanoseconds a job from then on. `e` is a dnnl engine. */
fault dnnl_profile(struct engine *e);

/* The jobs of a lesson in their order, at most `most`; how many there are. */
size_t dnnl_profile_lines(const struct engine *e, struct profile_line *lines, size_t most);

#endif
