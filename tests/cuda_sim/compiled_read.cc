/* Reads PTX (Parallel Thread Execution ISA, NVIDIA), as far as nvcc uses it for our kernels. All else is a
 * finding that names the line. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>

#include "tests/cuda_sim/compiled.hh"

namespace {

using sim::compiled, sim::place_of_kernel, sim::instruction_of_kernel;

std::string content(const char *path)
{
    std::string out;
    char part[65536];
    FILE *file = fopen(path, "r");
    if (file == NULL) sim::fail("%s: cannot be read", path);
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) out.append(part, n);
    fclose(file);
    return out;
}

size_t bytes_of(const std::string &type)
{
    size_t digits = type.find_first_of("0123456789");
    return type == ".pred" || digits == std::string::npos ? 1 : (size_t)atoi(type.c_str() + digits) / 8;
}

struct reader {
    const char *path;
    std::string text;
    std::vector<compiled *> *all;
    size_t at = 0;
    int line = 1;

    compiled *c = NULL;                                     /* that is being read */
    std::vector<std::map<std::string, int32_t>> known = {}; /* by name, in each block that is open */
    std::map<std::string, uint32_t> shared = {};            /* addresses; of the file and of the function */
    std::map<std::string, uint32_t> labels = {};
    std::vector<std::pair<size_t, std::string>> branches = {}; /* instructions and their targets */
    struct named_call {
        compiled *from;
        size_t at;
        std::string name;
    };
    std::vector<named_call> calls = {};
    size_t shared_of_file = 0;
    int32_t sink = -1; /* the register of "_" */

    [[noreturn]] void refuse(const std::string &what)
    {
        sim::fail("%s:%d: the simulator does not know \"%s\"", path, line, what.c_str());
    }

    /* ---- words ---- */

    static bool in_name(char c)
    {
        return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
    }

    void skip_blanks()
    {
        for (;; at++) {
            if (text.compare(at, 2, "//") == 0) at = text.find('\n', at);
            if (at >= text.size() || !isspace((unsigned char)text[at])) return;
            if (text[at] == '\n') line++;
        }
    }

    /* The next name, number, or other character; "" at the end. */
    std::string word()
    {
        skip_blanks();
        size_t begin = at;
        if (at >= text.size()) return "";
        if (text[at] == '"') {
            at = text.find('"', at + 1) + 1;
            return text.substr(begin, at - begin);
        }
        if (text[at++] != '-' && !in_name(text[begin])) return text.substr(begin, 1);
        while (in_name(text[at]) || text.compare(at, 2, "::") == 0) at += text[at] == ':' ? 2 : 1;
        return text.substr(begin, at - begin);
    }

    std::string peek()
    {
        size_t before = at;
        int before_line = line;
        std::string out = word();
        at = before, line = before_line;
        return out;
    }

    bool skip(const char *what)
    {
        bool there = peek() == what;
        if (there) word();
        return there;
    }

    void expect(const char *what)
    {
        std::string found = word();
        if (found != what) sim::fail("%s:%d: \"%s\" where \"%s\" belongs", path, line, found.c_str(), what);
    }

    void skip_line()
    {
        at = text.find('\n', at);
    }

    size_t number()
    {
        return (size_t)strtoull(word().c_str(), NULL, 10);
    }

    /* ---- declarations ---- */

    int32_t new_register(const std::string &name)
    {
        known.back()[name] = c->registers;
        return c->registers++;
    }

    /* ".reg .b32 %r<25>;" or ".reg .pred done;" */
    void read_registers()
    {
        word();
        do {
            std::string name = word();
            size_t count = 0;
            if (!skip("<")) {
                new_register(name);
                continue;
            }
            count = number();
            expect(">");
            for (size_t i = 0; i < count; i++) new_register(name + std::to_string(i));
        } while (skip(","));
        expect(";");
    }

    struct declared {
        std::string name;
        size_t bytes, alignment;
    };

    /* ".align 16 .b8 name[128]", after the state space; without an end it has no size of its own. */
    declared read_variable()
    {
        declared out = {"", 0, 0};
        if (skip(".align")) out.alignment = number();
        std::string type = word();
        if (type[0] != '.') refuse(type);
        out.name = word();
        out.bytes = bytes_of(type);
        if (out.alignment == 0) out.alignment = out.bytes;
        if (skip("[")) {
            out.bytes *= peek() == "]" ? 0 : number();
            expect("]");
        }
        return out;
    }

    void add_place(const declared &d, std::vector<place_of_kernel> *places, size_t *total)
    {
        size_t offset = (*total + d.alignment - 1) / d.alignment * d.alignment;
        places->push_back({new_register(d.name), offset, d.bytes});
        *total = offset + d.bytes;
    }

    /* Of dynamic memory there is one array. */
    void read_shared(bool is_extern)
    {
        declared d = read_variable();
        expect(";");
        size_t *total = &c->shared_bytes;
        if (!is_extern) *total = (*total + d.alignment - 1) / d.alignment * d.alignment;
        shared[d.name] = is_extern ? 0 : sim::STATIC_SHARED + (uint32_t)*total;
        if (!is_extern) *total += d.bytes;
    }

    size_t read_params()
    {
        size_t count = 0;
        expect("(");
        while (!skip(")")) {
            skip(",");
            expect(".param");
            add_place(read_variable(), &c->params, &c->param_bytes);
            count++;
        }
        return count;
    }

    /* ---- instructions ---- */

    int32_t constant(uint64_t value)
    {
        c->constants.push_back(value);
        return ~(int32_t)(c->constants.size() - 1);
    }

    int32_t built_in(const std::string &name)
    {
        static const char *const names[] = {"%tid.x",    "%tid.y",    "%tid.z",   "%ntid.x",  "%ntid.y",
                                            "%ntid.z",   "%ctaid.x",  "%ctaid.y", "%ctaid.z", "%nctaid.x",
                                            "%nctaid.y", "%nctaid.z", "%laneid"};
        for (const char *each : names)
            if (name == each) {
                int32_t made = c->registers++;
                known.front()[name] = made;
                c->built_in.push_back({made, each});
                return made;
            }
        refuse(name);
    }

    int32_t operand(const std::string &name)
    {
        if (isdigit((unsigned char)name[0]) || name[0] == '-') {
            bool bits = name[0] == '0' && (name[1] == 'f' || name[1] == 'd'); /* of a float or double */
            char *end;
            uint64_t value =
                bits ? strtoull(name.c_str() + 2, &end, 16) : (uint64_t)strtoll(name.c_str(), &end, 0);
            if (*end != '\0' && strcmp(end, "U") != 0) refuse(name);
            return constant(value);
        }
        if (name == "_") return sink;
        for (size_t i = known.size(); i-- > 0;) {
            auto found = known[i].find(name);
            if (found != known[i].end()) return found->second;
        }
        auto found = shared.find(name);
        if (found != shared.end()) return constant(found->second);
        return built_in(name);
    }

    void read_operands(instruction_of_kernel *i)
    {
        i->first = (uint32_t)c->operands.size();
        i->takes_apart = peek() == "{";
        for (std::string w; (w = word()) != ";";) {
            if (w == "," || w == "|" || w == "{" || w == "}" || w == "[" || w == "]") continue;
            if (w == "+") {
                if (i->offset != 0) refuse("two offsets");
                i->offset = strtoll(word().c_str(), NULL, 0);
                continue;
            }
            c->operands.push_back(operand(w));
        }
        i->operands = (uint32_t)c->operands.size() - i->first;
    }

    /* "call.uni (results), name, (parameters);" */
    void read_call(instruction_of_kernel *i)
    {
        i->first = (uint32_t)c->operands.size();
        expect("(");
        for (std::string w; (w = word()) != ")";)
            if (w != ",") c->operands.push_back(operand(w)), i->count++;
        expect(",");
        calls.push_back({c, c->code.size(), word()});
        expect(",");
        expect("(");
        for (std::string w; (w = word()) != ")";)
            if (w != ",") c->operands.push_back(operand(w));
        expect(";");
        i->operands = (uint32_t)c->operands.size() - i->first;
    }

    void read_instruction(std::string name)
    {
        instruction_of_kernel i = {};
        i.condition = -1;
        if (name == "@") {
            i.unless = skip("!");
            i.condition = operand(word());
            name = word();
        }
        i.line = line;
        if (!sim::instruction_named(name, &i)) refuse(name);
        if (name.compare(0, 3, "bra") == 0) {
            branches.push_back({c->code.size(), word()});
            expect(";");
        } else if (name.compare(0, 4, "call") == 0)
            read_call(&i);
        else
            read_operands(&i);
        c->code.push_back(i);
    }

    void read_body()
    {
        size_t depth = known.size();
        known.push_back({});
        while (known.size() > depth) {
            std::string w = word();
            if (w == "{")
                known.push_back({});
            else if (w == "}")
                known.pop_back();
            else if (w == ".reg")
                read_registers();
            else if (w == ".shared")
                read_shared(false);
            else if (w == ".param") {
                add_place(read_variable(), &c->params, &c->param_bytes);
                expect(";");
            } else if (w == ".local") {
                add_place(read_variable(), &c->locals, &c->local_bytes);
                expect(";");
            } else if (w == ".pragma") {
                word();
                expect(";");
            } else if (w[0] == '.' || w.empty())
                refuse(w);
            else if (skip(":"))
                labels[w] = (uint32_t)c->code.size();
            else
                read_instruction(w);
        }
        for (auto &[from, name] : branches) {
            if (labels.count(name) == 0) refuse(name);
            c->code[from].target = labels[name];
        }
    }

    /* "name(parameters) .maxntid 128, 1, 1 { ... }", or ";" instead of a body. */
    void read_function(bool is_kernel)
    {
        std::map<std::string, uint32_t> of_file = shared;
        c = new compiled();
        c->shared_bytes = shared_of_file;
        known.assign(1, {});
        labels.clear();
        branches.clear();
        sink = c->registers++;
        if (!is_kernel && peek() == "(") c->results = read_params();
        c->name = word();
        if (peek() == "(") c->parameters = read_params();
        while (peek() != "{" && peek() != ";") word();
        if (word() == ";") {
            delete c;
            return;
        }
        read_body();
        for (instruction_of_kernel &i : c->code) i.operand = c->operands.data() + i.first;
        shared = of_file;
        all->push_back(c);
    }

    /* A function may be defined behind its first call. */
    void find_functions()
    {
        for (const named_call &call : calls) {
            const compiled **callee = &call.from->code[call.at].callee;
            for (const compiled *other : *all)
                if (other->name == call.name) *callee = other;
            if (*callee == NULL) refuse(call.name);
        }
    }

    void read()
    {
        compiled of_file = {};
        for (std::string w; !(w = word()).empty();) {
            if (w == ".version" || w == ".target" || w == ".address_size")
                skip_line();
            else if (w == ".entry" || w == ".func")
                read_function(w == ".entry");
            else if (w == ".extern" || w == ".shared") {
                if (w == ".extern") expect(".shared");
                c = &of_file;
                read_shared(w == ".extern");
                shared_of_file = of_file.shared_bytes;
            } else if (w != ".visible" && w != ".weak")
                refuse(w);
        }
        find_functions();
    }
};

} // namespace

namespace sim {

void compiled_read(const char *path, std::vector<compiled *> *out)
{
    std::vector<compiled *> of_file;
    reader r = {path, content(path), &of_file};
    r.read();
    out->insert(out->end(), of_file.begin(), of_file.end());
}

} // namespace sim
