package fair
import ("testing";"fmt";"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable";"strings")
func TestOrd(t *testing.T) {
 var log []string
 var W *world
 printed := false
 dbg = func(name string, e memtable.Effect) {
   s := fmt.Sprint(W.sinceMS(), " ", name, " ", e.Write.Name, " ", e.Write.Key.SK)
   if strings.HasPrefix(e.Write.Key.PK, "N#work") { s += fmt.Sprint(" open ", e.After.Int("open"), " ready ", e.After.Int("ready"), " parked ", e.After.Int("parked")) }
   if strings.HasPrefix(e.Write.Key.PK, "T#") { s += " "+e.Before.Str("st")+"->"+e.After.Str("st")+" "+e.After.Str("rk") }
   log = append(log, s)
 }
 dbg2 = func(ms int64) { if ms > 2500 && !printed { printed = true; W.mu.Lock(); for _, s := range log[max(0,len(log)-400):] { fmt.Println(s) }; W.mu.Unlock() } }
 w := play(t, config(), without{}, func(w *world) { W = w; orderLoad(50, 10)(w) })
 fmt.Println(w.sinceEnd, w.accepted, len(w.spans), w.orders.broken, w.orders.left(), w.idleMS)
}
