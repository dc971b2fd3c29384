// Names for clang's thread-safety analysis; nothing elsewhere.
#pragma once

#if defined(__clang__)
#define STRATA_GUARDED_BY(mutex) __attribute__((guarded_by(mutex)))
#else
#define STRATA_GUARDED_BY(mutex)
#endif
