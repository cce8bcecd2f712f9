# `cpack --config build/cpu/CPackConfig.cmake` packs everything that `cmake --install` installs into
# libtrain_VERSION_ARCH.deb. dpkg-shlibdeps adds the packages of the shared libraries that it uses. CUDA's libraries
# belong to no Debian package, so the package does not depend on any for them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME libtrain)
set(CPACK_PACKAGE_VENDOR libtrain)
set(CPACK_PACKAGE_CONTACT "The libtrain maintainers <maintainers@libtrain.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ${BUILD_SHARED_LIBS})
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)  # mpirun
# What programs that use the library are built with.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, cmake, pkg-config, libopenmpi-dev, libhdf5-dev, libfmt-dev, libpcre2-dev, libutf8proc-dev, zlib1g-dev, libzstd-dev")
if(LIBTRAIN_HAS_ONEDNN)
  string(APPEND CPACK_DEBIAN_PACKAGE_SUGGESTS ", libdnnl-dev, ocl-icd-opencl-dev")
endif()
include(CPack)
