package belief

import (
	"encoding/json"
	"fmt"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// Margins are the safety margins in force: those that were learned, by lane, in ms.
type Margins map[string]int64

// DecodeMargins reads published margins; nothing published is none.
func DecodeMargins(body []byte) (Margins, error) {
	if len(body) == 0 {
		return Margins{}, nil
	}
	m := Margins{}
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("belief: published margins: %w", err)
	}
	return m, nil
}

// Encode is their body.
func (m Margins) Encode() []byte {
	body, err := json.Marshal(m)
	if err != nil {
		panic("belief: " + err.Error()) // strings and whole numbers
	}
	return body
}

// Of is a lane's margin in ms: the learned one within the bounds of the configuration as it is now, else the configured one.
func (m Margins) Of(lane *policy.Lane) int64 {
	if ms, learned := m[lane.Name]; learned {
		return estimate.ClampMargin(ms, lane.SafetyMargin.MS())
	}
	return lane.SafetyMargin.MS()
}
