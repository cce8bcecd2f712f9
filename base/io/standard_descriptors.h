// Standard input, output and error of a process whose parent has closed some of them.
#pragma once

namespace lt::io {

// Opens /dev/null at each closed descriptor from 0 to 2. Otherwise the next opened file would get that number and
// receive printed text. Reads from and writes to such a descriptor still fail. Call it before any file is opened.
void open_standard_descriptors();

}  // namespace lt::io
