// The version of nnc.
#ifndef NNC_SUPPORT_VERSION_H
#define NNC_SUPPORT_VERSION_H

#define NNC_VERSION "0.1.0"

#endif
