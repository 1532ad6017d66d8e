# Attention by cuDNN where the headers of cudnn-frontend are found (pip install nvidia-cudnn-frontend, or a system
# package) and cuDNN 9 is there; libcudnn and libnvrtc are opened at run time, the program starts without them.
set(OGROM_CUDNN_FRONTEND "" CACHE PATH "folder that holds cudnn_frontend.h (empty: looked for)")
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND NOT OGROM_CUDNN_FRONTEND)
  # The wheel puts its headers into <environment>/include or beside the module.
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
            "import sys, sysconfig; p = sysconfig.get_paths(); print(p['data'] + '/include;' + p['purelib'] + '/include')"
    OUTPUT_VARIABLE ogrom_python_include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(OGROM_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${OGROM_CUDNN_FRONTEND} ${ogrom_python_include}
          ${CUDAToolkit_INCLUDE_DIRS})
find_path(OGROM_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(OGROM_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
find_library(OGROM_NVRTC_LIBRARY NAMES nvrtc HINTS ${CUDAToolkit_LIBRARY_DIR})
if(OGROM_CUDNN_FRONTEND_INCLUDE AND OGROM_CUDNN_INCLUDE AND OGROM_NVRTC_LIBRARY)
  add_library(ogrom_cudnn OBJECT cuda/attention_cudnn.cpp cuda/attention_cudnn_library.cpp)
  target_include_directories(ogrom_cudnn PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(ogrom_cudnn SYSTEM PRIVATE ${OGROM_CUDNN_FRONTEND_INCLUDE} ${OGROM_CUDNN_INCLUDE}
                                                        ${CUDAToolkit_INCLUDE_DIRS})
  set(ogrom_cudnn_library ${OGROM_CUDNN_LIBRARY})
  if(NOT OGROM_CUDNN_LIBRARY)
    set(ogrom_cudnn_library libcudnn.so)
  endif()
  target_compile_definitions(
    ogrom_cudnn PRIVATE "OGROM_CUDNN_LIBRARY=\"${ogrom_cudnn_library}\"" "OGROM_NVRTC_LIBRARY=\"${OGROM_NVRTC_LIBRARY}\""
                        "OGROM_NVRTC_NAME=\"libnvrtc.so.${CUDAToolkit_VERSION_MAJOR}\"")
  target_link_libraries(ogrom_cudnn PRIVATE ogrom_flags)
  target_sources(ogrom_kernels PRIVATE $<TARGET_OBJECTS:ogrom_cudnn>)
  target_link_libraries(ogrom_kernels PUBLIC ${CMAKE_DL_LIBS})
  message(STATUS "cuDNN attention: cudnn-frontend in ${OGROM_CUDNN_FRONTEND_INCLUDE}, library ${ogrom_cudnn_library} "
                 "(opened at run time)")
else()
  target_sources(ogrom_kernels PRIVATE cuda/attention_no_cudnn.cpp)
  message(STATUS "cuDNN attention: not built (cudnn_frontend.h: ${OGROM_CUDNN_FRONTEND_INCLUDE}, cudnn.h: "
                 "${OGROM_CUDNN_INCLUDE}, nvrtc: ${OGROM_NVRTC_LIBRARY}); pip install nvidia-cudnn-frontend or set "
                 "OGROM_CUDNN_FRONTEND")
endif()
