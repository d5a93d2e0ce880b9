/* html.h - the parts of the page that are the same for every report. */
#ifndef VECHE_RECORD_HTML_H
#define VECHE_RECORD_HTML_H

extern const char html_style[];       /* rules of style, without those of the charts */
extern const char html_style_paper[]; /* and those for printing */
extern const char html_script[];      /* values under the pointer; the page is whole without it */

#endif
