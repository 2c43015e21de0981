// ggml's RPC backend over connections that Rust keeps (ggml/src/rpc). ggml's own transport is not compiled: where a server
// does not answer, ggml would abort the process. Rust answers in the place of a server that is lost, and remembers why.
//
// No function lets a C++ exception out.

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-impl.h"
#include "ggml-rpc.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

// Bytes of memory that the server on this thread reports of a device, at most.
static thread_local size_t served_memory = SIZE_MAX;

// What a server says of its memory. ggml says of a CPU that all of its memory is free.
static void served_device_memory(ggml_backend_dev_t device, size_t * free, size_t * total) {
    ggml_backend_dev_memory(device, free, total);
    if (served_memory < *free) {
        *free = served_memory;
    }
}

// Computes a graph that a client sent. A custom operation would be a call of an address that the client names.
static ggml_status compute_for_client(ggml_backend_t backend, ggml_cgraph * graph) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const ggml_tensor * node = graph->nodes[i];
        if (node == nullptr || node->op < 0 || node->op >= GGML_OP_COUNT) {
            throw std::runtime_error("a graph has an unknown operation");
        }
        switch (node->op) {
            case GGML_OP_MAP_CUSTOM1:
            case GGML_OP_MAP_CUSTOM2:
            case GGML_OP_MAP_CUSTOM3:
            case GGML_OP_CUSTOM:
                throw std::runtime_error("a graph has a custom operation, which is an address of the client's program");
            default:
                break;
        }
    }
    return ggml_backend_graph_compute(backend, graph);
}

// In ggml's file only its server calls these two.
#define ggml_backend_dev_memory    served_device_memory
#define ggml_backend_graph_compute compute_for_client
#include "ggml-rpc/ggml-rpc.cpp"
#undef ggml_backend_dev_memory
#undef ggml_backend_graph_compute

// ggml/src/rpc/protocol.rs has these numbers.
static_assert(RPC_PROTO_MAJOR_VERSION == 7 && RPC_PROTO_MINOR_VERSION == 0 && RPC_PROTO_PATCH_VERSION == 0, "another protocol");
static_assert(RPC_CONN_CAPS_SIZE == 24 && RPC_CMD_HELLO == 14 && RPC_CMD_DEVICE_COUNT == 15, "another protocol");

// Rust's side of a connection. Its number is the host of the endpoint that ggml is given, as in "7:0". ggml/src/rpc/sockets.rs
// has the same struct.
struct longhand_rpc_sockets {
    void (*open)(uint64_t number);
    bool (*send)(uint64_t number, const void * data, size_t size);
    bool (*flush)(uint64_t number);
    bool (*receive)(uint64_t number, void * data, size_t size);
    void (*close)(uint64_t number);
};

static longhand_rpc_sockets sockets;

extern "C" void longhand_rpc_use(const longhand_rpc_sockets * functions) {
    sockets = *functions;
}

struct socket_t::impl {
    uint64_t number;
};

socket_t::socket_t(std::unique_ptr<impl> p) : pimpl(std::move(p)) {
    sockets.open(pimpl->number);
}

socket_t::~socket_t() {
    sockets.close(pimpl->number);
}

bool socket_t::send_data(const void * data, size_t size) {
    return sockets.send(pimpl->number, data, size);
}

bool socket_t::recv_data(void * data, size_t size) {
    return sockets.receive(pimpl->number, data, size);
}

bool socket_t::flush() {
    return sockets.flush(pimpl->number);
}

void socket_t::get_caps(uint8_t * local_caps) {
    memset(local_caps, 0, RPC_CONN_CAPS_SIZE);
}

void socket_t::update_caps(const uint8_t *) {}

socket_ptr socket_t::connect(const char * host, int) {
    return socket_ptr(new socket_t(std::make_unique<impl>(impl{ std::stoull(host) })));
}

socket_ptr socket_t::accept() {
    return nullptr;
}

socket_ptr socket_t::create_server(const char *, int) {
    return nullptr;
}

bool rpc_transport_init() {
    return true;
}

void rpc_transport_shutdown() {}

// The backend of a device of the server with this endpoint; null where C++ refuses.
extern "C" ggml_backend_t longhand_rpc_backend(const char * endpoint, uint32_t device) {
    try {
        ggml_backend_rpc_buffer_type(endpoint, device);
        return ggml_backend_rpc_init(endpoint, device);
    } catch (...) {
        return nullptr;
    }
}

// The number of the connection that memory of this type is reached by; 0 for other memory.
extern "C" uint64_t longhand_rpc_connection(ggml_backend_buffer_type_t type) {
    if (type->iface.get_name != ggml_backend_rpc_buffer_type_name) {
        return 0;
    }
    auto * context = (ggml_backend_rpc_buffer_type_context *) type->context;
    return strtoull(context->endpoint.c_str(), nullptr, 10);
}

// Waits until the server has computed all that it was sent. Returns whether C++ did not refuse.
extern "C" bool longhand_rpc_wait(ggml_backend_t backend) {
    try {
        auto * context = (ggml_backend_rpc_context *) backend->context;
        rpc_msg_device_count_rsp response;
        context->dispatcher->send(RPC_CMD_DEVICE_COUNT, nullptr, 0, &response, sizeof(response));
        return true;
    } catch (...) {
        return false;
    }
}

// Serves one client until the connection ends, or ggml refuses what it asks for. Returns false, and writes why, where C++ throws.
extern "C" bool longhand_rpc_serve(
        uint64_t number, const ggml_backend_t * backends, size_t count, size_t memory, char * why, size_t size) {
    served_memory = memory;
    try {
        socket_ptr client = socket_t::connect(std::to_string(number).c_str(), 0);
        rpc_serve_client(std::vector<ggml_backend_t>(backends, backends + count), nullptr, client);
        return true;
    } catch (const std::exception & error) {
        snprintf(why, size, "%s", error.what());
        return false;
    } catch (...) {
        snprintf(why, size, "an unknown exception");
        return false;
    }
}
