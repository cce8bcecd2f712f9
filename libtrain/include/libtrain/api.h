// Marks a namespace of the public headers: a shared libtrain shows what such a namespace declares, and hides all other
// symbols.
#pragma once

#define LT_API [[gnu::visibility("default")]]
