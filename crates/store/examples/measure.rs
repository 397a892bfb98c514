#![allow(clippy::all, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]
use std::sync::Arc; use std::time::Instant;
use domain::*; use store::*; use store::conformance::sample::*;
#[tokio::main(flavor="multi_thread", worker_threads=2)]
async fn main(){
  let dir = tempfile::tempdir_in(std::env::args().nth(1).unwrap_or("/work/main/target".into())).unwrap();
  let s = Arc::new(Sqlite::open(dir.path().join("d/f.db"), Options::default()).unwrap());
  let total: u32 = 200_000;
  for stage in 0..4u32 {
    let from = stage*total/4; let to=(stage+1)*total/4;
    let t=Instant::now();
    for c in (from..to).step_by(1000) { let r=s.commit((c..c+1000).map(|n| create(job(n))).collect()).await; assert!(r.iter().all(|r|r.is_ok())); }
    println!("create {} -> {}: {:.0}/s", from,to, (to-from) as f64/t.elapsed().as_secs_f64());
  }
  for callers in [1u32,32,256] {
    let per = 6000/callers;
    let t=Instant::now(); let mut set=tokio::task::JoinSet::new();
    let b=s.operations();
    for c in 0..callers { let s=s.clone(); set.spawn(async move { let mut lat=vec![];
      for k in 0..per { let n = 1_000_000*callers + c*10_000+k; let mut unit=create(job(n)); let mut rev=Revision(1);
        for step in [|j| dispatched(j,seconds(9)), granted, started, |j| cancelled(j)] as [fn(Job)->Job;4] { let j=unit.job.clone(); let i=Instant::now(); rev=s.commit(vec![unit]).await.remove(0).unwrap(); lat.push(i.elapsed().as_micros()); unit=replace(step(j),rev);} 
        let i=Instant::now(); s.commit(vec![unit]).await.remove(0).unwrap(); lat.push(i.elapsed().as_micros()); }
      lat }); }
    let mut lat=vec![]; while let Some(l)=set.join_next().await { lat.extend(l.unwrap()); } lat.sort();
    let e=s.operations(); let n=lat.len();
    println!("callers {callers}: {:.0} writes/s p50 {} p99 {} max {} us, units/tx {:.1}", n as f64/t.elapsed().as_secs_f64(), lat[n/2], lat[n*99/100], lat[n-1], (e.job_units-b.job_units) as f64/(e.transactions-b.transactions) as f64);
  }
  let time = async |name:&str, f: &mut dyn FnMut()->std::pin::Pin<Box<dyn Future<Output=()>>>| { let t=Instant::now(); for _ in 0..50 { f().await; } println!("{name}: {:.3} ms", t.elapsed().as_secs_f64()*1000.0/50.0); };
  let a=s.clone(); time("job", &mut ||{let s=a.clone();Box::pin(async move{s.job(id(5)).await.unwrap();})}).await;
  let a=s.clone(); time("census", &mut ||{let s=a.clone();Box::pin(async move{s.census().await.unwrap();})}).await;
  let a=s.clone(); time("due", &mut ||{let s=a.clone();Box::pin(async move{s.due(seconds(100),100).await.unwrap();})}).await;
  let a=s.clone(); time("open 100", &mut ||{let s=a.clone();Box::pin(async move{s.open(None,100).await.unwrap();})}).await;
  for (name,f) in [("list",JobFilter::default()),("product",JobFilter{products:vec!["notes".parse().unwrap()],..Default::default()}),("stage",JobFilter{stages:vec![StageName::Failed],..Default::default()}),("missing stage",JobFilter{stages:vec![StageName::Review],..Default::default()}),("prio none",JobFilter{priority:Some(Priority::Low),..Default::default()}),("repo none",JobFilter{repo:Some("x".parse().unwrap()),..Default::default()})] {
    let a=s.clone(); time(name, &mut ||{let s=a.clone();let f=f.clone();Box::pin(async move{s.jobs(&f,None,50).await.unwrap();})}).await;
  }
  println!("{:?} size {} MB", s.operations(), std::fs::metadata(dir.path().join("d/f.db")).unwrap().len()/1_000_000);
  let t=Instant::now(); s.close().await.unwrap(); println!("close {:?}", t.elapsed());
  let t=Instant::now(); let s=Sqlite::open(dir.path().join("d/f.db"), Options::default()).unwrap(); println!("open {:?}", t.elapsed()); drop(s);
}
