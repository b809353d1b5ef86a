package apitest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures a [Server]. The zero value selects the defaults.
type Config struct {
	// Seed determines UIDs, generated names and the calls that a Fault with a Share hits.
	Seed uint64
	// History is the number of changes of each kind that the server keeps at least. A watch can
	// begin at a version before these changes. 0: 4096.
	History int
}

const defaultHistory = 4096

// A Server is an API server in memory. Its clusters share its objects. A Server is safe for
// concurrent use and has no goroutines, apart from watches with events that wait for their
// receiver.
type Server struct {
	config Config
	own    *Cluster // the cluster of Direct: without faults and records

	mu      sync.Mutex // before watcher.mu
	version uint64     // of the last write, of any kind
	watches uint64     // opened so far
	tables  map[*kind]*table
	faults  faults
	calls   []*Call
}

// NewServer returns a server that has the namespaces of a new cluster, and no other object.
func NewServer(config Config) *Server {
	config.History = cmp.Or(config.History, defaultHistory)
	s := &Server{config: config, tables: map[*kind]*table{}, faults: newFaults(config.Seed)}
	for _, k := range kinds {
		s.tables[k] = newTable(k, config.History)
	}
	s.own = newCluster(s, "")
	s.own.exempt = true
	for _, name := range []string{v1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, v1.NamespaceNodeLease} {
		namespace := &v1.Namespace{}
		namespace.Name = name
		if _, err := s.own.create(namespaceKind, "", namespace, metav1.CreateOptions{}); err != nil {
			panic(fmt.Sprintf("create namespace %s: %v", name, err)) // a defect of this package
		}
	}
	return s
}

// Connect returns the clients of a process. The identity names the process in calls and faults;
// several processes may share an identity, such as a process and its successor.
func (s *Server) Connect(identity string) *Cluster { return newCluster(s, identity) }

// Direct returns clients for the test itself: no fault applies to their calls, and no call is
// recorded.
func (s *Server) Direct() api.Cluster { return s.own }

// Compact drops all changes so far, as etcd does periodically: a watch or a list from an older
// version, and the next page of an older list, fail with 410 Gone. Open watches continue.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.compact(s.version)
	}
}

// Version returns the version of the last write, of any kind.
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return formatVersion(s.version)
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }

// nextVersion returns the version of the next write. It requires s.mu.
func (s *Server) nextVersion() uint64 {
	s.version++
	return s.version
}

// hash returns a number that depends on the seed and the values only.
func hash(seed uint64, values ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, append([]any{seed}, values...)...)
	// FNV leaves the last bytes in the low bits. This is the finalizer of MurmurHash3.
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// newUID returns a UID in the form of a random UUID. It requires s.mu.
func (s *Server) newUID() types.UID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hash(s.config.Seed, "uid", s.version))
	binary.BigEndian.PutUint64(b[8:], hash(s.config.Seed, "uid", s.version, "low"))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// The API server's limit of a generated name, and the letters of its suffix.
const (
	mostGenerated = 63
	suffixLength  = 5
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789"
)

// generateName returns a name that no object of the table has. It requires s.mu.
func (s *Server) generateName(t *table, namespace, base string) string {
	base = base[:min(len(base), mostGenerated-suffixLength)]
	for attempt := 0; ; attempt++ {
		number := hash(s.config.Seed, "name", s.version, attempt)
		suffix := make([]byte, suffixLength)
		for i := range suffix {
			suffix[i] = suffixLetters[number%uint64(len(suffixLetters))]
			number /= uint64(len(suffixLetters))
		}
		name := base + string(suffix)
		if _, taken := t.objects[api.Key{Namespace: namespace, Name: name}]; !taken {
			return name
		}
	}
}
