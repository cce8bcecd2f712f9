// Standard input, output and error of a process whose parent has closed some of them.
#pragma once

namespace lt::io {

// Opens /dev/null at each of the descriptors 0 to 2 that is closed: the next file would get that number, and with it
// what is printed. Reading and writing there still fail. Call it before anything opens a file.
void open_standard_descriptors();

}  // namespace lt::io
