package building

// A Tier is a set of system calls to build with.
type Tier int

// The tiers, see mount.Tier.
const (
	TierAuto     Tier = iota // the newest that the kernel offers
	TierClassic              // mount(2) in a staging area
	TierDetached             // fsopen, open_tree and mount_setattr
	TierTreeAttr             // open_tree_attr
)

// tierKernels names the kernel that a tier requires.
var tierKernels = map[Tier]string{TierDetached: "Linux 5.12", TierTreeAttr: "Linux 6.15"}

var tierNames = map[Tier]string{
	TierAuto:     "auto",
	TierClassic:  "classic",
	TierDetached: "detached",
	TierTreeAttr: "tree-attr",
}

// String returns the tier's name.
func (t Tier) String() string {
	if name, ok := tierNames[t]; ok {
		return name
	}
	return "unknown tier"
}
