// The file driver through which HDF5 writes. HDF5 1.10 cannot close a file whose metadata it cannot write: the file
// stays half open and the library crashes at the end of the process. So this driver never reports a failure to HDF5; it
// keeps the first one, drops what follows, and the caller asks for it once HDF5 has let go of the file.
#pragma once

#include "hdf5_handle.h"

namespace lt::checkpoint {

// Inside an Hdf5Session; lives longer than the files opened with it.
class Hdf5WriteDriver {
 public:
  Hdf5WriteDriver();

  // Access properties of a file to be created: those of file_access(), with this driver.
  Hdf5Properties access();
  // Throws DataError "cannot write: No space left on device" where a call failed since the last check.
  void check();

  struct Failure {
    const char* call = nullptr;  // "write"
    int error = 0;               // errno

    void keep(const char* name);
  };

 private:
  Hdf5Handle<H5FDunregister> driver_;
  Failure failure_;
};

}  // namespace lt::checkpoint
