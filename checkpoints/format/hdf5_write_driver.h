// The file driver through which HDF5 writes. HDF5 1.10 cannot close a file whose metadata it cannot write: the file
// stays half open and the library crashes when the process ends. So this driver never reports a failure to HDF5. It
// keeps the first failure and drops later writes. The caller must call check() once HDF5 has closed the file.
#pragma once

#include "checkpoints/format/hdf5_handle.h"

namespace lt::checkpoint {

// Use it inside an Hdf5Session. It must outlive the files opened with it.
class Hdf5WriteDriver {
 public:
  Hdf5WriteDriver();

  // Returns the properties of file_access() plus this driver, for creating a file.
  Hdf5Properties access();
  // Throws DataError if a call failed since the last check, for example "cannot write: No space left on device".
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
