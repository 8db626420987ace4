// The style sheet and the script of the memory report. Colours are variables, so that dark differs in their values only.
#include "passes/report_internal.h"

const char *const report_style[] = {   // in parts: C promises strings of 4095 characters only
    ":root{color-scheme:light dark;--bg:#ffffff;--card:#f6f7f9;--ink:#1b2230;--soft:#5c6676;--line:#d9dee6;--grid:#e8ebf0;--edge:#ffffff;--accent:#c2410c;--bound:#0f766e;"
    "--k0:#7c8799;--k1:#aab3c1;--k2:#a58ad6;--k3:#2f9e8f;--k4:#4a86d8;--k5:#ea6f2d;--k6:#e3b93c}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#12161d;--card:#1a202a;--ink:#e7ebf2;--soft:#9aa5b6;--line:#343d4b;--grid:#262e3a;--edge:#12161d;--accent:#ff9a5c;--bound:#4fd1c0;"
    "--k0:#77839a;--k1:#525d70;--k2:#9f86d9;--k3:#2f9c8c;--k4:#4d8be6;--k5:#fb8142;--k6:#e5c158}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",Arial,sans-serif}\n"
    "main{max-width:1180px;margin:0 auto;padding:28px 30px 60px}h1{font-size:26px;margin:0 0 2px;font-weight:650}h2{font-size:18px;margin:38px 0 6px;font-weight:650}\n"
    "p{margin:4px 0 10px;color:var(--soft);max-width:95ch}.line{font:15px/1.6 ui-monospace,\"DejaVu Sans Mono\",Menlo,monospace;background:var(--card);border-left:4px solid var(--k5);"
    "padding:9px 14px;margin:14px 0;color:var(--ink);max-width:none}\n"
    ".tiles{display:flex;flex-wrap:wrap;gap:10px;margin:14px 0 0;padding:0;list-style:none}.tiles li{background:var(--card);border-radius:8px;padding:10px 16px;min-width:128px;flex:1}\n"
    ".tiles span{display:block;font-size:12.5px;color:var(--soft)}.tiles strong{font-size:20px;font-weight:650;white-space:nowrap}.tiles small{display:block;color:var(--soft);font-size:12.5px}\n"
    "svg{display:block;width:100%;height:auto;overflow:visible}svg text{font-size:12.5px;fill:var(--ink)}svg .tick{fill:var(--soft)}svg .title{font-size:14.5px;font-weight:600}"
    "svg .sub{font-weight:400;fill:var(--soft);font-size:13px}svg .note{font-size:12px;fill:var(--ink)}.halo{paint-order:stroke;stroke:var(--bg);stroke-width:3.5px;stroke-linejoin:round}\n"
    ".grid{stroke:var(--grid);fill:none}.axis{stroke:var(--soft);fill:none}.phase{stroke:var(--ink);stroke-dasharray:2 3;fill:none;opacity:.7}\n"
    ".budget{stroke:var(--accent);stroke-width:1.6;stroke-dasharray:7 4;fill:none}.peak{fill:var(--bg);stroke:var(--ink);stroke-width:1.6}.cross{stroke:var(--ink);fill:none}\n"
    ".k0{fill:var(--k0)}.k1{fill:var(--k1)}.k2{fill:var(--k2)}.k3{fill:var(--k3)}.k4{fill:var(--k4)}.k5{fill:var(--k5)}.k6{fill:var(--k6)}\n"
    ".b0{background:var(--k0)}.b1{background:var(--k1)}.b2{background:var(--k2)}.b3{background:var(--k3)}.b4{background:var(--k4)}.b5{background:var(--k5)}.b6{background:var(--k6)}\n"
    ,
    ".break{stroke:var(--ink);stroke-width:1.2;fill:none}svg .band{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round;pointer-events:none}.empty{fill:var(--card);stroke:var(--line)}.map rect{stroke:var(--edge);stroke-width:.35}.map .thin,.map path{stroke:none}.map rect:hover{stroke:var(--ink);stroke-width:1.5}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:8px 0 10px;padding:0;font-size:13px;color:var(--soft)}.legend i{display:inline-block;width:12px;height:12px;"
    "border-radius:3px;margin-right:6px;vertical-align:-1px}.legend i.line{height:0;width:22px;border-radius:0;vertical-align:4px;border-top:2.5px solid var(--k4);padding:0;margin:0 6px 0 0;background:none}"
    ".legend i.line.bound{border-top:2.5px dashed var(--bound)}.legend i.dot{border-radius:50%;background:var(--k5)}\n"
    "path.found{fill:none;stroke:var(--k4);stroke-width:2.2}circle.found{fill:var(--k4)}path.bound{fill:none;stroke:var(--bound);stroke-width:2;stroke-dasharray:6 4}"
    ".gap{fill:var(--k4);opacity:.16}circle.here{fill:var(--k5);stroke:var(--bg);stroke-width:1.5}.never{fill:var(--card)}\n"
    ".pair{display:flex;flex-wrap:wrap;gap:34px;align-items:flex-start}.pair>div{flex:1 1 600px}.pair>aside{flex:0 1 380px}.wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}th{font-weight:600;text-align:right;color:var(--soft);border-bottom:1px solid var(--line);"
    "padding:5px 8px;white-space:nowrap}td{padding:5px 8px;border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap;vertical-align:top}"
    "th:first-child,td:first-child,th:nth-child(2),.wide td:nth-child(2){text-align:left}.peaks th:nth-child(2){text-align:right}td small{display:block;color:var(--soft);font-size:12px}\n"
    "td:first-child{white-space:normal}td i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:7px}td b{display:inline-block;height:9px;min-width:1px;background:var(--k5);"
    "border-radius:2px}.wide td:nth-child(5){width:130px;text-align:left;min-width:100px}.sum td{font-weight:650}.readout{font:12.5px ui-monospace,\"DejaVu Sans Mono\",Menlo,monospace;min-height:20px}\n"
    "footer{margin-top:40px;color:var(--soft);font-size:12.5px}\n",
    NULL};

const char report_script[] =
    "(function(){var names=['parameters','optimizer','inputs','gradients','activations','recomputed','workspace'],units=['bytes','KiB','MiB','GiB','TiB'],"
    "out=document.getElementById('readout');\n"
    "function size(b){var u=0;while(b>=1024&&u<4){b/=1024;u++}return (u?b.toFixed(b<10?2:b<100?1:0):b)+' '+units[u]}\n"
    "document.querySelectorAll('.hover').forEach(function(g){var rows=memory[+g.dataset.panel],cross=g.querySelector('.cross'),left=+g.dataset.left,right=+g.dataset.right,steps=+g.dataset.steps;\n"
    "g.addEventListener('mousemove',function(e){var box=g.ownerSVGElement.getBoundingClientRect(),x=(e.clientX-box.left)*1120/box.width,at=(x-left)/(right-left)*steps,i=0,j=rows.length;\n"
    "if(!j)return;while(j-i>1){var m=(i+j)>>1;if(rows[m][0]<=at)i=m;else j=m}var r=rows[i],sum=0,text='';\n"
    "for(var k=6;k>=0;k--){sum+=r[k+2];if(r[k+2])text+=', '+names[k]+' '+size(r[k+2])}\n"
    "cross.setAttribute('d','M'+x.toFixed(1)+' '+cross.dataset.top+'V'+cross.dataset.bottom);out.textContent='step '+r[1]+': '+size(sum)+' live'+text});\n"
    "g.addEventListener('mouseleave',function(){cross.setAttribute('d','');out.textContent='\\u00a0'})})})();\n";
