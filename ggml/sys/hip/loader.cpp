// The functions of ROCm's libraries that ggml-cuda calls. Each jumps to the one of the library, which longhand_hip_open() opens. So
// the program is not linked to these libraries and starts without them.
//
// What the compiler registers before `main`, the kernels of each file, waits here until libamdhip64 is there.

#include <dlfcn.h>
#include <hip/hip_version.h>
#include <hipblas/hipblas-version.h>

#include <cstddef>
#include <list>
#include <string>
#include <vector>

#define TEXT_OF(text) #text
#define TEXT(text)    TEXT_OF(text)

// The names that the libraries have since the release whose headers these are: others have other structs.
#define LIBAMDHIP64 "libamdhip64.so." TEXT(HIP_VERSION_MAJOR)
#define LIBHIPBLAS  "libhipblas.so." TEXT(hipblasVersionMajor)

// A new release of ggml that calls another function fails to link.
#define FUNCTIONS_OF_LIBAMDHIP64(DO)                 \
    DO(__hipPopCallConfiguration)                    \
    DO(__hipPushCallConfiguration)                   \
    DO(hipDeviceCanAccessPeer)                       \
    DO(hipDeviceEnablePeerAccess)                    \
    DO(hipDeviceGetAttribute)                        \
    DO(hipDeviceGetPCIBusId)                         \
    DO(hipDeviceSynchronize)                         \
    DO(hipEventCreateWithFlags)                      \
    DO(hipEventDestroy)                              \
    DO(hipEventRecord)                               \
    DO(hipEventSynchronize)                          \
    DO(hipFree)                                      \
    DO(hipFuncSetAttribute)                          \
    DO(hipGetDevice)                                 \
    DO(hipGetDeviceCount)                            \
    DO(hipGetDevicePropertiesR0600)                  \
    DO(hipGetErrorString)                            \
    DO(hipGetLastError)                              \
    DO(hipHostFree)                                  \
    DO(hipHostGetDevicePointer)                      \
    DO(hipHostMalloc)                                \
    DO(hipHostRegister)                              \
    DO(hipHostUnregister)                            \
    DO(hipLaunchCooperativeKernel)                   \
    DO(hipLaunchKernel)                              \
    DO(hipMalloc)                                    \
    DO(hipMallocManaged)                             \
    DO(hipMemAdvise)                                 \
    DO(hipMemGetInfo)                                \
    DO(hipMemcpy2DAsync)                             \
    DO(hipMemcpyAsync)                               \
    DO(hipMemcpyPeerAsync)                           \
    DO(hipMemset)                                    \
    DO(hipMemsetAsync)                               \
    DO(hipOccupancyMaxActiveBlocksPerMultiprocessor) \
    DO(hipSetDevice)                                 \
    DO(hipStreamCreateWithFlags)                     \
    DO(hipStreamDestroy)                             \
    DO(hipStreamSynchronize)                         \
    DO(hipStreamWaitEvent)

#define FUNCTIONS_OF_LIBHIPBLAS(DO) \
    DO(hipblasCreate)               \
    DO(hipblasDestroy)              \
    DO(hipblasGemmBatchedEx)        \
    DO(hipblasGemmEx)               \
    DO(hipblasGemmStridedBatchedEx) \
    DO(hipblasSetStream)            \
    DO(hipblasSgemm)                \
    DO(hipblasSgemmBatched)         \
    DO(hipblasSgemmStridedBatched)  \
    DO(hipblasStrsmBatched)

// What all functions are before the libraries are opened. Nobody calls them then.
static int not_opened() {
    return 3;  // hipErrorNotInitialized
}

// The address of a function, and the function, which jumps there whatever its parameters are.
#define DEFINE(name)                                                                                              \
    extern "C" {                                                                                                  \
    __attribute__((used, visibility("hidden"))) void * longhand_address_of_##name = (void *) not_opened;          \
    }                                                                                                             \
    asm(".pushsection .text\n.globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name             \
        ":\njmp *longhand_address_of_" #name "(%rip)\n.size " #name ", . - " #name "\n.popsection");

FUNCTIONS_OF_LIBAMDHIP64(DEFINE)
FUNCTIONS_OF_LIBHIPBLAS(DEFINE)

// The kernels of a file, as the compiler's code describes them.
struct File {
    struct Kernel {
        const void * host;
        char *       device;
        const char * name;
        unsigned     max_threads;
        void *       bounds[5];
    };

    const void *        code;
    std::vector<Kernel> kernels;
};

// They are registered in any order before `main`, by one thread.
static std::list<File> & files() {
    static std::list<File> * const all = new std::list<File>;
    return *all;
}

extern "C" {

void ** __hipRegisterFatBinary(const void * code) {
    files().push_back({ code, {} });
    return (void **) &files().back();
}

void __hipRegisterFunction(
        void ** file, const void * host, char * device, const char * name, unsigned max_threads, void * thread, void * block,
        void * block_size, void * grid_size, void * warp_size) {
    ((File *) file)->kernels.push_back({ host, device, name, max_threads, { thread, block, block_size, grid_size, warp_size } });
}

// The program ends, and with it all that the driver has of it.
void __hipUnregisterFatBinary(void **) {}

}  // extern "C"

// Opens a library by its name, or where ROCm's packages put it. Returns null, with the loader's message about the name, if there is
// none.
static void * open_library(const std::string & name, std::string & problem) {
    void * library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char * message = dlerror();
        problem              = message != nullptr ? message : name;
        library              = dlopen(("/opt/rocm/lib/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

// The address of a function of a library; null, with the name as the problem, where it has none.
static void * find(void * library, const char * library_name, const char * name, std::string & problem) {
    void * found = dlsym(library, name);
    if (found == nullptr) {
        problem = std::string(library_name) + " has no function " + name;
    }
    return found;
}

#define FIND(name)                                                                     \
    if (void * found = find(library, library_name, #name, problem); found != nullptr) { \
        longhand_address_of_##name = found;                                            \
    } else {                                                                           \
        return problem;                                                                \
    }

// Registers with libamdhip64 what the files of this program have.
static bool register_files(void * library, const char * library_name, std::string & problem) {
    const auto code   = find(library, library_name, "__hipRegisterFatBinary", problem);
    const auto kernel = find(library, library_name, "__hipRegisterFunction", problem);
    if (code == nullptr || kernel == nullptr) {
        return false;
    }
    for (const File & file : files()) {
        void ** const handle = ((decltype(&__hipRegisterFatBinary)) code)(file.code);
        for (const File::Kernel & k : file.kernels) {
            ((decltype(&__hipRegisterFunction)) kernel)(
                handle, k.host, k.device, k.name, k.max_threads, k.bounds[0], k.bounds[1], k.bounds[2], k.bounds[3], k.bounds[4]);
        }
    }
    return true;
}

// Opens both libraries. Returns why that is not possible; nothing where it is.
static std::string open_all() {
    std::string  problem;
    void * const hip  = open_library(LIBAMDHIP64, problem);
    void * const blas = hip != nullptr ? open_library(LIBHIPBLAS, problem) : nullptr;
    if (blas == nullptr) {
        return problem;
    }
    const char * library_name = LIBAMDHIP64;
    void *       library      = hip;
    FUNCTIONS_OF_LIBAMDHIP64(FIND)
    library_name = LIBHIPBLAS;
    library      = blas;
    FUNCTIONS_OF_LIBHIPBLAS(FIND)
    return register_files(hip, LIBAMDHIP64, problem) ? std::string() : problem;
}

// Opens ROCm's libraries, once. Returns null, or why that is not possible, as a string that is never freed.
extern "C" const char * longhand_hip_open() {
    static const std::string * const problem = new std::string(open_all());
    return problem->empty() ? nullptr : problem->c_str();
}
