// LT_API marks the namespaces of public headers. A shared libtrain exports their symbols and hides all others.
#pragma once

#define LT_API [[gnu::visibility("default")]]
