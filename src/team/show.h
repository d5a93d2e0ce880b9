/* show.h - a plan and its rivals as text for people, as one JSON object, as a drawing. Texts are the caller's to free. */
#ifndef VECHE_TEAM_SHOW_H
#define VECHE_TEAM_SHOW_H

#include "team/rivals.h"

struct plan_shown {
    const struct cut_needs *needs;
    const struct cut_plan *plan;
    const struct rivals *rivals;
    const char *advice, *verdict; /* lines, each with its end */
};

fault show_text(const struct plan_shown *s, char **text);
fault show_json(const struct plan_shown *s, char **json);
/* The time line of a round: who computes which micro-batch when. */
fault show_svg(const struct plan_shown *s, char **svg);

#endif
